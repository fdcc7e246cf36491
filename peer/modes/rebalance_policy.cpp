// Checks for reasons to renew a generation, and whether each reason has lasted long enough.
#include "peer/modes/rebalance_policy.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include "consensus/generation/link_survey.hpp"
#include "peer/modes/mode.hpp"

namespace gv {
namespace {

/// Number of operations before the first ballot that uses measurements, provided that links are
/// measured by then.
constexpr std::uint64_t first_ballot = 16;
/// The work has become slower if `slow_operations_max` operations in a row each take more than
/// `slow_factor` times as long as usual. A series of this length is no coincidence.
constexpr double slow_factor = 1.5;
constexpr int slow_operations_max = 16;
/// Newcomers are collected for this long, so that they are admitted together.
constexpr Duration gathering = std::chrono::milliseconds(300);
/// Lost peers are asked at this interval whether they are back.
constexpr Duration knock_every = std::chrono::seconds(1);

}  // namespace

void RebalancePolicy::enter_generation(Time now, std::size_t peers) {
  knock_at_ = now + knock_every;
  measuring_ = 1 + LinkSurvey::operations(peers);
}

void RebalancePolicy::operation_done(Time now) {
  const double took = seconds(now - std::exchange(done_at_, now));
  if (measuring_ > 0) {
    --measuring_;
    return;
  }
  if (usual_seconds_ == 0) usual_seconds_ = took;
  if (took > slow_factor * usual_seconds_) {
    ++slow_operations_;
  } else {
    slow_operations_ = 0;
    usual_seconds_ += recent_weight * (took - usual_seconds_);
  }
}

void RebalancePolicy::rest() { newcomers_since_ = knock_at_ = never; }

/// True if we are the peer that decides for this generation: the first of its peers that is still a
/// candidate. At the end of a run some peers may have left.
bool RebalancePolicy::is_ours(const Generation& generation,
                              const std::vector<PeerId>& candidates) const {
  const auto first =
      std::ranges::find_if(candidates, [&](PeerId peer) { return generation.contains(peer); });
  return first != candidates.end() && *first == self_;
}

bool RebalancePolicy::newcomers_wait(Time now, const Agreement& agreement,
                                     const std::vector<PeerId>& candidates, Effects& out) {
  const Generation& generation = *agreement.generation();
  if (!is_ours(generation, candidates)) {
    rest();
    return false;
  }
  // We may have become the deciding peer just now, because an earlier one has left.
  if (knock_at_ == never) knock_at_ = now + knock_every;
  bool newcomers = false;
  const bool knock = now >= knock_at_;
  if (knock) knock_at_ = now + knock_every;
  for (const PeerId peer : candidates) {
    if (generation.contains(peer) || agreement.is_left_out(peer)) continue;
    if (!agreement.is_blamed(peer)) {
      newcomers = true;
    } else if (knock) {
      out.send(peer, StatusRequest{generation.id});
    }
  }
  if (!newcomers) {
    newcomers_since_ = never;
  } else if (newcomers_since_ == never) {
    newcomers_since_ = now;
  }
  return newcomers && now - newcomers_since_ >= gathering;
}

bool RebalancePolicy::ballot_is_due(const Generation& generation,
                                    const std::vector<PeerId>& candidates,
                                    std::uint64_t operations) {
  const std::size_t peers = generation.order.size();
  const bool others = !std::ranges::is_permutation(generation.order, measured_peers_);
  const bool slow =
      slow_operations_ >= slow_operations_max && done_at_ - counting_since_ >= recount_min;
  if (others || slow) {
    measured_peers_ = generation.order;
    counting_since_ = done_at_;
    ballot_after_ = std::max(first_ballot, 2 + LinkSurvey::operations(peers));
    counted_from_ = operations;
    usual_seconds_ = 0;
    slow_operations_ = 0;
  }
  // No ballot may begin while it would have to wait for a lost peer.
  if (peers < 2 || candidates.size() != peers || !is_ours(generation, candidates)) return false;
  if (slow) return true;
  if (operations - counted_from_ < ballot_after_) return false;
  ballot_after_ *= 4;
  return true;
}

Time RebalancePolicy::deadline() const {
  const Time gathered = newcomers_since_ == never ? never : newcomers_since_ + gathering;
  return std::min(gathered, knock_at_);
}

}  // namespace gv
