// Adapts deadlines to the recent durations of operations and answers.
#include "peer/modes/straggler_detector.hpp"

#include <algorithm>
#include <chrono>

#include "peer/modes/mode.hpp"

namespace gv {
namespace {

/// Peers are checked if there is no progress for this many times an operation's usual duration,
/// within limits.
constexpr double stall_factor = 4;
constexpr Duration stall_max = std::chrono::seconds(30);

/// A peer counts as silent if it answers none of this many questions.
constexpr int questions = 12;

/// Returns a time that is long enough for answers to most questions, even if some are lost or late.
Duration answers_within(Duration patience) { return 3 * patience; }

}  // namespace

void StragglerDetector::enter_generation(Time now) {
  progress_at_ = now;
  seen_progress_ = 0;
  factor_ = stall_factor;
}

void StragglerDetector::leave_generation() {
  checked_at_.reset();
  idle_checks_ = 0;
}

void StragglerDetector::operation_done(Time now, bool usual) {
  if (usual) {
    const double took = seconds(now - operation_began_);
    operation_seconds_ +=
        (operation_seconds_ == 0 ? 1 : recent_weight) * (took - operation_seconds_);
  }
  operation_began_ = progress_at_ = now;
  seen_progress_ = 0;
  factor_ = stall_factor;
  stall_min_ = first_stall_min;
  checked_at_.reset();
  idle_checks_ = 0;
}

void StragglerDetector::rest(Time now) {
  checked_at_.reset();
  progress_at_ = std::max(progress_at_, now);
}

std::optional<std::set<PeerId>> StragglerDetector::watch(Time now, const Generation& generation,
                                                         std::uint64_t progress, Duration patience,
                                                         Effects& out) {
  if (progress != seen_progress_) {
    seen_progress_ = progress;
    progress_at_ = now;
    checked_at_.reset();
    idle_checks_ = 0;
  }
  if (!checked_at_) {
    if (now < progress_at_ + stall_after()) return std::nullopt;
    checked_at_ = now;
    somebody_busy_ = false;
    silent_ = std::set<PeerId>(generation.order.begin(), generation.order.end());
    silent_.erase(self_);
    check_again_at_ = now;
  }
  if (now >= check_again_at_) {  // Ask again, because a message may be lost. A live peer receives
                                 // at least one of several.
    check_again_at_ = now + answers_within(patience) / questions;
    for (const PeerId peer : silent_) out.send(peer, StatusRequest{generation.id});
  }
  if (now < *checked_at_ + answers_within(patience)) return std::nullopt;
  for (const PeerId peer : silent_) {
    out.tell(PeerSilent{.peer = peer, .seconds = seconds(answers_within(patience))});
  }
  if (!silent_.empty()) return silent_;
  checked_at_.reset();
  progress_at_ = now;
  factor_ *= 1.5;
  idle_checks_ = somebody_busy_ ? 0 : idle_checks_ + 1;
  if (idle_checks_ < 2) return std::nullopt;
  stall_min_ = std::min(2 * stall_min_, stall_max);
  return std::set<PeerId>();
}

void StragglerDetector::heard(PeerId from, bool busy) {
  silent_.erase(from);
  somebody_busy_ = somebody_busy_ || busy;
}

Duration StragglerDetector::stall_after() const {
  return std::clamp(from_seconds(factor_ * operation_seconds_), stall_min_, stall_max);
}

Time StragglerDetector::deadline(bool waiting, Duration patience) const {
  if (checked_at_) return std::min(check_again_at_, *checked_at_ + answers_within(patience));
  return waiting ? progress_at_ + stall_after() : never;
}

}  // namespace gv
