// Tells who is gone from who computes for long, when an operation stands still.
#pragma once

#include <cstdint>
#include <optional>
#include <set>

#include "base/time.hpp"
#include "consensus/generation/agreement.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// When nothing comes for long, asks everybody; who does not answer is lost. Whoever computes is
/// waited for, however long it takes. Pure.
class StragglerDetector {
 public:
  explicit StragglerDetector(PeerId self) : self_(self) {}

  /// Operations are made from now on; how long they take is counted from here.
  void begin(Time now) { operation_began_ = now; }
  void enter_generation(Time now);
  void leave_generation();
  /// An operation is done. `usual`: how long it took says how long the next will take.
  void operation_done(Time now, bool usual);

  /// While an operation waits for others; `progress` changes when something comes. Who has to be
  /// given up then; an empty set: nobody, and yet everybody waits for what was lost.
  std::optional<std::set<PeerId>> watch(Time now, const Generation& generation,
                                        std::uint64_t progress, Duration patience, Effects& out);
  /// Nothing is waited for.
  void rest(Time now);
  /// An answer to our question.
  void heard(PeerId from, bool busy);
  bool is_asking() const { return checked_at_.has_value(); }

  /// When watch() has work; `waiting` as it is now.
  Time deadline(bool waiting, Duration patience) const;

  /// Of late, smoothed; 0 before the first are done.
  double operation_seconds() const { return operation_seconds_; }

 private:
  Duration stall_after() const;

  PeerId self_;
  std::uint64_t seen_progress_ = 0;
  Time progress_at_{};
  double operation_seconds_ = 0;
  Time operation_began_{};
  double factor_ = 1;  ///< Grows while checks find everybody well.
  std::optional<Time> checked_at_;
  Time check_again_at_ = never;
  std::set<PeerId> silent_;  ///< Have not answered the check under way.
  bool somebody_busy_ = false;
  int idle_checks_ = 0;
};

}  // namespace gv
