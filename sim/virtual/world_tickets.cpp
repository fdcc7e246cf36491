// Lets virtual peers join by tickets, show their certificates, revoke keys, and lie about keys.
#include <algorithm>
#include <utility>

#include "sim/virtual/world.hpp"

namespace gv {
namespace {

/// A guest that gets no answer asks again after this time.
constexpr Duration ask_again_after = std::chrono::seconds(1);
/// Bytes of a request or its answer, and of a chain that a peer shows.
constexpr std::size_t answer_bytes = 20'000;
constexpr std::size_t shown_bytes = 1000;
/// First id of strangers. No virtual peer has such an id.
constexpr std::uint64_t first_stranger = 1'000'000;
/// Largest number of certificates that a guest gets with its own.
constexpr std::size_t given_max = 60;
/// Largest number of peers' addresses that a guest gets.
constexpr std::size_t addresses_max = 16;

}  // namespace

PeerKey Simulator::World::swarm_key() const { return key_of(swarm_id); }

/// True if peer `number` accepts the certificate of `other`. A hostile peer accepts all peers.
bool Simulator::World::accepts(PeerNumber number, PeerNumber other) const {
  const auto& node = peers[number].node;
  if (!node || saboteurs.contains(number)) return true;
  return node->trust()->accepted(key_of(id_of(other))) != nullptr;
}

/// The certificates of a starting process, from its disk. Peer 0 also has the swarm's key.
Trust Simulator::World::trust_of(PeerNumber number) {
  const PeerKey self = key_of(id_of(number));
  Trust trust({.swarm = swarm_key(),
               .self = self,
               .wall_s = wall_s,
               .swarm_signer = number == 0 ? &swarm_signer : nullptr},
              signers[number], ticket_draws.fork(number).fork(peers[number].incarnation));
  trust.restore(local(number), machines[number].certificates, machines[number].revocations);
  if (number == 0) {
    Effects none;
    static_cast<void>(trust.certify(local(number), self, "peer-0", true, View(), none));
    invited.insert(id_of(number));
  }
  return trust;
}

/// Makes an honest peer leave if it no longer belongs to the swarm, as its host would.
void Simulator::World::follow_trust(PeerNumber number) {
  const VirtualPeer& peer = peers[number];
  if (!peer.node || saboteurs.contains(number) || peer.node->is_leaving()) return;
  if (!peer.node->trust()->must_leave(local(number))) return;
  queue.push(now, Admission{.kind = Admission::Kind::leave,
                            .peer = number,
                            .incarnation = peer.incarnation,
                            .shown = {}});
}

std::optional<Certificate> Simulator::World::invite(PeerNumber by, const PeerKey& key,
                                                    const std::string& name, bool may_invite) {
  std::optional<Certificate> made;
  if (peers[by].state != PeerState::up) return made;
  feed(by, {.kind = Input::Kind::command, .peer = by}, [&](Node& node, Time t, NodeEffects& out) {
    // Record the invitation first, because watchers check invariants during this call.
    invited.insert(signers[by].id_of(key));
    made = node.invite(t, key, name, may_invite, out);
  });
  return made;
}

/// Asks a running peer with the right to invite for a certificate, and starts once the answer
/// arrives. If there is no answer, tries again later. Never asks a peer that has been revoked but
/// does not know it yet.
void Simulator::World::join_by_ticket(PeerNumber number) {
  std::vector<PeerNumber> inviters;
  for (PeerNumber other = 0; other < peers.size(); ++other) {
    const VirtualPeer& peer = peers[other];
    const bool may = peer.state == PeerState::up && !saboteurs.contains(other) &&
                     !peer.node->is_leaving() && !revoked_by.contains(id_of(other)) &&
                     peer.node->trust()->may_invite(local(other));
    if (may) inviters.push_back(other);
  }
  const auto ask_later = [&] {
    queue.push(now + ask_again_after,
               Admission{.kind = Admission::Kind::ask, .peer = number, .shown = {}});
  };
  if (inviters.empty()) return ask_later();
  const PeerNumber by = inviters[ticket_draws.below(inviters.size())];
  const bool arrives =
      pass(number, by, answer_bytes).copies > 0 && pass(by, number, answer_bytes).copies > 0;
  if (!arrives) return ask_later();
  // Hostile peers and a quarter of the others get no right to invite.
  const bool may_invite = !saboteurs.contains(number) && number % 4 != 3;
  const auto made = invite(by, key_of(id_of(number)), "peer-" + std::to_string(number), may_invite);
  if (!made || !peers[by].node) return ask_later();
  const Trust& trust = *peers[by].node->trust();
  Machine& machine = machines[number];
  machine.certificates = trust.own_chain();
  for (const Certificate& one : trust.certificates()) {
    if (machine.certificates.size() < given_max) machine.certificates.push_back(one);
  }
  machine.certificates.push_back(*made);
  machine.revocations = trust.revocations();
  machine.known.insert(by);
  for (const PeerId member : peers[by].node->membership().view().peers()) {
    if (machine.known.size() < addresses_max) machine.known.insert(number_of(member));
  }
  machine.known.erase(number);
  start(number);
}

void Simulator::World::show_certificates(PeerNumber from, PeerNumber to) {
  const Passage there = pass(from, to, shown_bytes);
  if (there.copies == 0) return;
  queue.push(there.arrivals[0],
             Admission{.kind = Admission::Kind::show,
                       .peer = to,
                       .incarnation = peers[to].incarnation,
                       .shown = {.certificates = peers[from].node->trust()->own_chain()}});
}

void Simulator::World::handle(Admission& event) {
  const PeerNumber number = event.peer;
  if (event.kind == Admission::Kind::ask) {
    if (peers[number].state == PeerState::absent) start(number);
    return;
  }
  if (!is_for(number, event.incarnation) || peers[number].state != PeerState::up) return;
  mix_event(11, number, event.shown.certificates.size());
  if (event.kind == Admission::Kind::leave) return leave(number);
  feed(number, {.kind = Input::Kind::command, .peer = number},
       [&](Node& node, Time t, NodeEffects& out) {
         node.receive_certificates(t, event.shown, out);
       });
}

/// Acts like `grapevine revoke` at this peer. Returns false if the peer refuses.
bool Simulator::World::revoke_by(PeerNumber number, PeerId target) {
  const VirtualPeer& peer = peers[number];
  if (peer.state != PeerState::up || saboteurs.contains(number) || !options.scenario.tickets) {
    return false;
  }
  const Certificate* known = peer.node->trust()->accepted(key_of(target));
  if (known == nullptr || !peer.node->trust()->may_invite(local(number))) return false;
  const std::string name = known->name;
  const auto before = revoked_by.find(target);
  const bool was_known = before != revoked_by.end();
  revoked_by.try_emplace(target, number);
  bool done = false;
  feed(number, {.kind = Input::Kind::command, .peer = number},
       [&](Node& node, Time t, NodeEffects& out) {
         done = node.revoke(t, name, false, out).empty();
       });
  if (done) revoked_by[target] = number;
  if (!done && !was_known) revoked_by.erase(target);
  return done;
}

/// Lets a hostile member, which may not invite, sign and send false statements about keys.
void Simulator::World::lie_about_certificates(PeerNumber number) {
  if (peers[number].state != PeerState::up || !ticket_draws.chance(0.5)) return;
  const Trust& trust = *peers[number].node->trust();
  const auto draw_peer = [&] { return static_cast<PeerNumber>(ticket_draws.below(peers.size())); };
  const PeerKey self = key_of(id_of(number)), target = key_of(id_of(draw_peer()));
  const std::uint64_t wall = trust.wall(local(number));
  const auto chain_of_other = [&] {
    std::vector<Certificate> all = trust.certificates();
    return std::vector<Certificate>{all[ticket_draws.below(all.size())]};
  };
  Certificates lie;
  Certificate stranger{.swarm = swarm_key(),
                       .issuer = self,
                       .key = key_of(PeerId{first_stranger + ticket_draws.below(50)}),
                       .name = "stranger",
                       .may_invite = true,
                       .expires_s = wall + 1000};
  stranger.signature = signers[number].sign(signed_bytes(stranger));
  Revocation revocation{.swarm = swarm_key(), .issuer = self, .key = target, .signed_s = wall - 5};
  const std::uint64_t kind = ticket_draws.below(5);
  if (trust.certificates().empty()) return;
  if (kind == 0) revocation.chain = trust.own_chain();
  if (kind == 1) revocation.chain = chain_of_other();
  if (kind == 2 && !trust.revocations().empty()) {
    revocation = trust.revocations()[ticket_draws.below(trust.revocations().size())];
    revocation.key = target;
  }
  if (kind == 3) revocation.issuer = swarm_key();
  revocation.signature = signers[number].sign(signed_bytes(revocation));
  if (kind == 4) {
    lie.certificates = {stranger};
  } else {
    lie.revocations = {revocation};
  }
  const PeerNumber to = draw_peer();
  if (to != number) send(number, to, Message(std::move(lie)));
  // The stranger also shows itself to a peer.
  const PeerNumber there = draw_peer();
  if (kind != 4 || peers[there].state != PeerState::up || saboteurs.contains(there)) return;
  Certificates shown{.certificates = trust.own_chain()};
  shown.certificates.push_back(stranger);
  queue.push(now, Admission{.kind = Admission::Kind::show,
                            .peer = there,
                            .incarnation = peers[there].incarnation,
                            .shown = std::move(shown)});
}

void Simulator::World::set_walls(std::uint64_t ahead_s) {
  wall_s += ahead_s;
  for (PeerNumber number = 0; number < peers.size(); ++number) {
    if (!peers[number].node) continue;
    Node& node = *peers[number].node;
    node.set_wall(local(number), node.trust()->wall(local(number)) + ahead_s);
  }
}

}  // namespace gv
