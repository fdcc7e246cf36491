// A peer in a swarm with certificates: which peers get links, guests with tickets, and commands.
#include <fmt/format.h>

#include <algorithm>
#include <asio/post.hpp>
#include <chrono>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.hpp"
#include "consensus/trust/trust.hpp"
#include "peer/config/refusal.hpp"
#include "peer/host/running_host.hpp"
#include "peer/host/swarm_files.hpp"
#include "peer/host/swarm_start.hpp"

namespace gv {
namespace {

/// The most addresses to which a peer shows its certificates while no link is up.
constexpr std::size_t shown_max = 16;

std::string problem_text(const std::string& problem) {
  return nlohmann::json{{"problem", problem}}.dump();
}

std::string too_many_tickets() {
  return fmt::format("{} tickets are open; use one of them, or wait until one expires",
                     tickets_max);
}

}  // namespace

std::uint64_t Host::wall_us() const {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                        std::chrono::system_clock::now().time_since_epoch())
                                        .count());
}

/// Hands this peer's certificates to the node, and begins to admit guests. The peer that founds the
/// swarm also prints a ticket.
void Host::enter_swarm() {
  const CertifiedSwarm& swarm = *options_.swarm;
  if (swarm.swarm_key) {
    swarm_signer_.emplace(*swarm.swarm_key, std::vector<AuthorizedPeer>());
  }
  tickets_.emplace(swarm_folder(options_.folder) / "tickets",
                   [this](const PublicKey& key) { return node_->trust()->is_revoked(key); });
  Trust trust({.swarm = swarm.swarm,
               .self = options_.identity.public_key,
               .wall_s = wall_s() - static_cast<std::uint64_t>(seconds(now().time_since_epoch())),
               .swarm_signer = swarm_signer_ ? &*swarm_signer_ : nullptr},
              signer_, Rng(random_number()));
  trust.restore(now(), swarm.certificates, swarm.revocations);
  if (swarm_signer_) {
    Effects none;  // There are no links yet.
    static_cast<void>(
        trust.certify(now(), options_.identity.public_key, options_.name, true, View(), none));
  }
  feed([&](Time t, NodeEffects& out) { node_->certify(t, std::move(trust), out); });
  follow_certificates();
  open_door();
  if (swarm.first_ticket) offer_ticket(*swarm.first_ticket);
}

/// Prints a ticket, unless one that was printed earlier still admits machines. That ticket cannot
/// be printed again, because its secret is not kept. A ticket with another address does not count,
/// because a machine that has it cannot reach this peer.
void Host::offer_ticket(const TicketTerms& terms) {
  if (const auto open = tickets_->open_ticket(control_->advertised(), wall_s())) {
    say(stdout, fmt::format("an earlier ticket is good for {} and {} min; for "
                            "another: grapevine invite {}\n",
                            counted(open->uses_left, "more machine"), (open->left_s + 59) / 60,
                            options_.folder.string()));
    return;
  }
  const std::optional<std::string> ticket = make_ticket(terms);
  say(stdout, ticket ? fmt::format("on another machine: grapevine join {}\n", *ticket)
                     : "no ticket is printed: " + too_many_tickets() + "\n");
}

/// Leaves the swarm if this peer no longer belongs to it.
void Host::follow_certificates() {
  const Trust& trust = *node_->trust();
  if (trust.version() != followed_) follow_accepted();
  if (!trust.must_leave(now()) || node_->is_leaving()) return;
  const bool is_revoked = trust.is_revoked(options_.identity.public_key);
  warn(fmt::format(
      "the certificate of this peer, {}, {}, so it leaves; to take "
      "part again it needs a new ticket and another --folder",
      options_.name,
      is_revoked ? "has been revoked" : "has expired or rests on one that has been revoked"));
  exit_code_ = 2;
  feed([this](Time t, NodeEffects& out) { node_->leave(t, out); });
}

/// Updates links, lanes and signatures after the certificates have changed.
void Host::follow_accepted() {
  const Trust& trust = *node_->trust();
  followed_ = trust.version();
  const std::vector<AuthorizedPeer> before = std::exchange(options_.authorized, {});
  std::set<CurveKey> curves;
  for (const Certificate& certificate : trust.accepted()) {
    const auto curve = curve_key(certificate.key);
    if (!curve || !curves.insert(*curve).second) continue;
    options_.authorized.push_back({.name = certificate.name, .key = certificate.key});
    names_[peer_id(certificate.key)] = certificate.name;
  }
  forget_unlisted(before);
  // The names of peers that have left the list are kept for messages about these peers, up to a
  // limit.
  if (names_.size() > 2 * certified_max) {
    std::erase_if(names_, [&](const auto& entry) {
      return entry.first != self_ &&
             std::ranges::find(options_.authorized, entry.first, [](const AuthorizedPeer& peer) {
               return peer_id(peer.key);
             }) == options_.authorized.end();
    });
  }
  signer_.authorize(options_.authorized);
  control_->authorize(options_.authorized);
  std::erase_if(cached_,
                [this](const auto& entry) { return !control_->roster().is_other(entry.first); });
  keep_certificates();
}

void Host::keep_certificates() {
  const Trust& trust = *node_->trust();
  if (trust.changes() == kept_) return;
  if (write_certificates(options_.folder, options_.swarm->swarm, trust.certificates(),
                         trust.revocations())) {
    kept_ = trust.changes();
  }
}

/// Admits guests with our tickets, and visitors that show certificates.
void Host::open_door() {
  std::vector<PublicKey> guests = tickets_->guests(wall_s());
  guests.push_back(visitor_keys(options_.swarm->swarm).public_key);
  if (guests == guests_) return;
  guests_ = std::move(guests);
  control_->admit_guests(guests_);
}

/// Shows our certificates to peers that we want to join but that have not admitted us, because they
/// may not know us yet.
void Host::show_certificates() {
  if (contacts_.size() > 0 && !is_newcomer()) return;
  const Certificates chain{.certificates = node_->trust()->own_chain()};
  std::vector<std::string> targets = options_.join;
  for (const auto& [peer, member] : cached_) {
    targets.push_back(name_of(peer) + "@" + member.address);
  }
  targets.resize(std::min(targets.size(), shown_max));
  for (const std::string& target : targets) {
    const auto at = target.find('@');
    const auto peer =
        std::ranges::find(options_.authorized, target.substr(0, at), &AuthorizedPeer::name);
    if (at == std::string::npos || peer == options_.authorized.end()) continue;
    if (contacts_.contains(peer_id(peer->key))) continue;
    control_->show(peer->key, target.substr(at + 1), options_.swarm->swarm, chain);
  }
}

JoinAnswer Host::refuse_guest(const std::string& why) {
  // A guest may ask often, so its refusal is reported at most once a second.
  if (now() >= next_refusal_) {
    next_refusal_ = now() + std::chrono::seconds(1);
    note(TicketRefused{.why = why});
  }
  return {.refusal = why};
}

/// Returns the certificate with which a guest joins. A guest that did not receive its answer gets
/// the same certificate again.
std::optional<Certificate> Host::certificate_for(const PublicKey& guest,
                                                 const JoinRequest& request) {
  const Certificate* held = node_->trust()->accepted(request.key);
  if (held != nullptr && held->expires_s > wall_s() + certificate_lifetime_s / 2) return *held;
  std::optional<Certificate> made;
  feed([&](Time t, NodeEffects& out) {
    made = node_->invite(t, request.key, request.name, tickets_->may_invite(guest), out);
  });
  if (!made) return made;
  tickets_->use(guest, request.key);
  note(TicketRedeemed{.name = made->name});
  if (!options_.quiet) say(stdout, fmt::format("{} joins by a ticket\n", made->name));
  return made;
}

std::optional<JoinAnswer> Host::answer_guest(const PublicKey& guest, const JoinRequest& request) {
  if (!tickets_->knows(guest)) return std::nullopt;
  const CertifiedSwarm& swarm = *options_.swarm;
  const std::string refusal = tickets_->refusal(guest, request.key, wall_s());
  if (!refusal.empty()) return refuse_guest(refusal);
  const std::vector<std::byte> bytes =
      request_bytes(request, swarm.swarm, options_.identity.public_key, guest);
  if (!curve_key(request.key) || !signer_.verify_key(request.key, bytes, request.proof)) {
    return refuse_guest("the request does not prove that the guest holds its key");
  }
  const std::optional<Certificate> made = certificate_for(guest, request);
  if (!made) return refuse_guest("its key is revoked, or the inviting peer may not invite now");

  JoinAnswer answer{.certificates = {*made}};
  const auto add = [&](const Certificate& certificate) {
    const bool is_there =
        std::ranges::find(answer.certificates, certificate) != answer.certificates.end();
    if (!is_there && answer.certificates.size() < answer_certificates_max) {
      answer.certificates.push_back(certificate);
    }
  };
  for (const Certificate& certificate : node_->trust()->own_chain()) add(certificate);
  for (const Certificate& certificate : node_->trust()->certificates()) add(certificate);
  answer.revocations = node_->trust()->revocations();
  answer.revocations.resize(std::min(answer.revocations.size(), answer_revocations_max));
  for (std::size_t at = 0; at < swarm.config.size(); at += 4096) {
    answer.config.push_back(swarm.config.substr(at, 4096));
  }
  for (const Member& member : node_->membership().statements()) {
    const bool can_be_dialled = member.state == MemberState::alive && !member.address.empty();
    if (!can_be_dialled || answer.addresses.size() == answer_addresses_max) continue;
    answer.addresses.push_back(name_of(member.id) + "@" + member.address);
  }
  return answer;
}

/// Makes a ticket. Returns nullopt if too many are open.
std::optional<std::string> Host::make_ticket(const TicketTerms& terms) {
  const auto ticket = tickets_->make(terms, control_->advertised(), options_.swarm->swarm,
                                     options_.identity.public_key, wall_s());
  if (!ticket) return std::nullopt;
  open_door();
  return to_text(*ticket);
}

/// Answers the commands of `grapevine invite` and `grapevine revoke`. Returns an empty text for
/// other commands.
std::string Host::answer_swarm_command(const std::string& command) {
  const SwarmCommand asked = read_swarm_command(command);
  if (!asked.invite && asked.revoke.empty()) return {};
  if (!options_.swarm) {
    return problem_text(
        "this peer goes by an allow-list; tickets are for swarms that began with "
        "`grapevine create`");
  }
  if (!asked.revoke.empty()) {
    Problems problems;
    feed([&](Time t, NodeEffects& out) {
      problems = node_->revoke(t, asked.revoke, asked.with_invited, out);
    });
    if (!problems.empty()) return problem_text(to_string(problems.front()));
    return nlohmann::json{{"revoked", asked.revoke}}.dump();
  }
  if (!node_->trust()->may_invite(now())) {
    return problem_text("this peer may not invite; ask another one");
  }
  if (control_->advertised().empty()) {
    return problem_text("no peer can dial this one; ask one that listens");
  }
  const std::optional<std::string> ticket = make_ticket(*asked.invite);
  if (!ticket) return problem_text(too_many_tickets());
  return nlohmann::json{{"ticket", *ticket}}.dump();
}

}  // namespace gv
