// Lets a running peer meet the other ranks of its cohort.
#include <fmt/format.h>
#include <sodium.h>

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/canonical.hpp"
#include "net/cohort.hpp"
#include "peer/host/running_host.hpp"

namespace gv {
namespace {

/// Pause between two looks into the rendezvous folder once this peer has met another. These looks
/// only serve to find ranks that no member knows.
constexpr Duration look_pause = std::chrono::seconds(10);

/// A peer that has met no other says so after this time, and again after each `waiting_line_pause`.
constexpr Time first_waiting_line{std::chrono::seconds(3)};
constexpr Duration waiting_line_pause = std::chrono::seconds(60);

/// Limits dials. Addresses from the rendezvous may be stale, and each dial to a stale address
/// occupies a socket for a minute.
constexpr RateLimit::Options dials_allowed{.per_second = 1, .burst = 16};

/// Returns a number that differs if any of the settings differs.
std::uint64_t fingerprint_of(const std::vector<std::pair<std::string, std::string>>& settings) {
  const auto bytes = canonical_bytes("grapevine settings 1", settings);
  std::array<std::uint64_t, 2> hash{};
  crypto_generichash(reinterpret_cast<std::uint8_t*>(hash.data()), sizeof hash,
                     reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size(), nullptr, 0);
  return hash[0];
}

}  // namespace

void Host::open_rendezvous() {
  std::vector<PeerId> ranks;
  for (const AuthorizedPeer& peer : options_.authorized) ranks.push_back(peer_id(peer.key));
  cohort_.emplace(Cohort{.rendezvous = Rendezvous({.folder = options_.cohort->rendezvous,
                                                   .rank = options_.cohort->rank,
                                                   .peers = std::move(ranks),
                                                   .address = control_->advertised(),
                                                   .session = session_,
                                                   .settings = fingerprint_of(agreed_settings())},
                                                  signer_),
                         .next_waiting_line = first_waiting_line,
                         .dials = RateLimit(dials_allowed)});
}

/// Dials ranks of the cohort that are not live members. Ends this peer if another process with the
/// same settings has its rank. If this peer is alone, prints what it is waiting for.
void Host::meet_cohort() {
  const bool is_alone = contacts_.empty();
  if (!is_alone && now() < cohort_->next_look) return;
  cohort_->next_look = now() + look_pause;
  const Rendezvous::Look look = cohort_->rendezvous.look([this](PeerId peer) {
    // A rank that was killed and started again has another address.
    const Member* member = node_->membership().find(peer);
    return control_->is_linked(peer) || (member != nullptr && is_live(member->state));
  });
  for (const Rendezvous::Found& found : look.others) {
    if (cohort_->dials.take(now())) control_->dial(found.peer, found.address);
  }
  const std::string rank = name_of_rank(options_.cohort->rank);
  if (!look.taken_at.empty()) {
    warn(
        fmt::format("{}: another process has taken this rank, at {}; start each rank once, with "
                    "--rank R or by an engine that `grapevine env` recognises",
                    rank, look.taken_at));
    exit_code_ = 2;
    io_.stop();
  } else if (is_alone && now() >= cohort_->next_waiting_line && !is_guest()) {
    cohort_->next_waiting_line = now() + waiting_line_pause;
    warn(fmt::format(
        "{} has met none of the {} other ranks yet: in {} there {} of them; it begins "
        "alone after {:.0f} s (run.wait_max_s) and goes on looking",
        rank, others(), options_.cohort->rendezvous.string(),
        look.others.size() == 1 ? "is the address of one"
                                : fmt::format("are the addresses of {}", look.others.size()),
        seconds(options_.config.run.wait_max)));
  }
}

}  // namespace gv
