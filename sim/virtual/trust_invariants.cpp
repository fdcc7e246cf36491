// Compares the certificates of virtual peers with the certificates that honest peers have signed.
#include "sim/virtual/trust_invariants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "consensus/trust/trust.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// Time within which all peers must have received news of certificates.
constexpr Duration everywhere_within = 30s;
/// Time within which certificates that are due for renewal must be renewed.
constexpr Duration renewed_within = 60s;

/// Honest peers that are up and belong to the swarm.
std::vector<PeerNumber> members(const Simulator& world) {
  std::vector<PeerNumber> all;
  for (PeerNumber number = 0; number < world.size(); ++number) {
    const VirtualPeer& peer = world.peer(number);
    const bool is_member = peer.state == PeerState::up && !world.is_hostile(number) &&
                           !peer.node->is_leaving() && !is_out(world, number);
    if (is_member) all.push_back(number);
  }
  return all;
}

const Trust& trust_of(const Simulator& world, PeerNumber number) {
  return *world.peer(number).node->trust();
}

/// The first member that accepts the key although `should_accept` is false, or refuses it although
/// `should_accept` is true. Returns nullopt if there is none.
std::optional<PeerNumber> unaware(const Simulator& world, PeerId key, bool should_accept) {
  for (const PeerNumber number : members(world)) {
    const bool accepts = trust_of(world, number).accepted(key_of(key)) != nullptr;
    if (accepts != should_accept) return number;
  }
  return std::nullopt;
}

Violation missing(const Simulator& world, std::string what) {
  return {"invitations go on", std::move(what), world.now(), true};
}

}  // namespace

bool is_out(const Simulator& world, PeerNumber peer) {
  if (!world.options().scenario.tickets) return false;
  if (world.revoker(id_of(peer))) return true;
  bool has_others = false;
  for (PeerNumber other = 0; other < world.size(); ++other) {
    const VirtualPeer& there = world.peer(other);
    if (other == peer || world.is_hostile(other) || there.state != PeerState::up) continue;
    if (world.revoker(id_of(other))) continue;
    has_others = true;
    if (there.node->trust()->accepted(key_of(id_of(peer))) != nullptr) return false;
  }
  return has_others;
}

void TrustInvariants::after(const Simulator& world, PeerNumber peer) {
  const auto& node = world.peer(peer).node;
  if (!node || node->trust() == nullptr || world.is_hostile(peer)) return;
  const Trust& trust = *node->trust();
  if (std::exchange(seen_[peer], trust.changes()) == trust.changes()) return;
  // "no stranger": honest peers have invited all admitted peers.
  for (const Certificate& one : trust.accepted()) {
    const PeerId id = world.signer(id_of(peer)).id_of(one.key);
    if (world.is_invited(id)) continue;
    fail(world, "no stranger",
         fmt::format("peer-{} lets {} in, which no sound peer has invited", peer, one.name));
  }
  // "revoked by right": a key is revoked only if an honest peer with the right to do so has revoked
  // it.
  for (const Revocation& one : trust.revocations()) {
    const PeerId id = world.signer(id_of(peer)).id_of(one.key);
    if (!trust.is_revoked(one.key) || world.revoker(id)) continue;
    fail(world, "revoked by right",
         fmt::format("peer-{} takes peer-{} for revoked, which no sound peer has revoked", peer,
                     number_of(id)));
  }
}

void TrustInvariants::look_for_lag(const Simulator& world) {
  const std::vector<PeerNumber> all = members(world);
  const auto accepts = [&](PeerNumber number, PeerNumber target) {
    return trust_of(world, number).accepted(key_of(id_of(target))) != nullptr;
  };
  std::set<Lag> lag;
  for (PeerNumber target = 0; target < world.size(); ++target) {
    const auto by = world.revoker(id_of(target));
    // Revocations by a peer that has itself been revoked may be void.
    if (!by || world.revoker(id_of(*by))) continue;
    for (const PeerNumber number : all) {
      const View& view = world.peer(number).node->membership().view();
      const bool can_know = std::ranges::any_of(all, [&](PeerNumber other) {
        return view.contains(id_of(other)) && !accepts(other, target);
      });
      if (can_know && accepts(number, target)) lag.insert({number, target});
    }
  }
  for (const auto& [number, target] : lag) {
    if (!lag_.contains({number, target})) continue;
    // "cut off": peers soon refuse a revoked peer.
    fail(world, "cut off",
         fmt::format("peer-{} lets peer-{} in, which has been revoked", number, target));
  }
  lag_ = std::move(lag);
}

void TrustInvariants::check_cut_off(const Simulator& world) {
  const std::vector<PeerNumber> all = members(world);
  for (PeerNumber target = 0; target < world.size(); ++target) {
    const auto by = world.revoker(id_of(target));
    if (!by || world.revoker(id_of(*by))) continue;
    for (const PeerNumber number : all) {
      if (trust_of(world, number).accepted(key_of(id_of(target))) == nullptr) continue;
      fail(world, "cut off",
           fmt::format("peer-{} lets peer-{} in, which peer-{} has revoked", number, target, *by));
    }
  }
  // "one list": in the end, all peers have the same members.
  for (const PeerNumber number : all) {
    const auto& mine = trust_of(world, number).accepted();
    const auto& theirs = trust_of(world, all.front()).accepted();
    if (std::ranges::equal(mine, theirs, {}, &Certificate::key, &Certificate::key)) continue;
    fail(world, "one list",
         fmt::format("peer-{} and peer-{} let different peers in", number, all.front()));
  }
}

std::optional<Violation> check_invitations(Simulator& world) {
  const std::vector<PeerNumber> all = members(world);
  const auto may = std::ranges::find_if(all, [&](PeerNumber number) {
    return trust_of(world, number).may_invite(world.local(number));
  });
  if (may == all.end()) return std::nullopt;
  const PeerNumber by = *may;
  const PeerId guest{world.size() + 500};
  if (!world.invite(by, guest)) {
    return missing(world, fmt::format("peer-{} may invite and does not", by));
  }
  world.run(world.now() + everywhere_within);
  if (const auto who = unaware(world, guest, true)) {
    return missing(world, fmt::format("peer-{} does not know a guest of peer-{}", *who, by));
  }
  world.set_walls(certificate_lifetime_s * 9 / 10);
  world.run(world.now() + renewed_within);
  // The peer may have ended because its budget is used up. In that case, it may be that no other
  // peer can renew certificates.
  if (world.peer(by).state != PeerState::up) return std::nullopt;
  for (const PeerNumber number : members(world)) {
    const Trust& trust = trust_of(world, number);
    const Certificate* own = trust.accepted(key_of(id_of(number)));
    const std::uint64_t wall_s = trust.wall(world.local(number));
    if (own != nullptr && own->expires_s > wall_s + certificate_lifetime_s / 2) continue;
    return missing(world, fmt::format("the certificate of peer-{} is not renewed", number));
  }
  if (!world.revoke_by(by, guest)) return std::nullopt;
  world.run(world.now() + everywhere_within);
  if (const auto who = unaware(world, guest, false)) {
    return missing(world, fmt::format("peer-{} lets a revoked guest in", *who));
  }
  return std::nullopt;
}

}  // namespace gv
