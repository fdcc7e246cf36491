// Distinguishes lost peers from slow ones when an operation stands still.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>

#include "base/time.hpp"
#include "consensus/generation/agreement.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// When no data have arrived for long, asks all peers. A peer that does not answer is lost. A peer
/// that is computing gets all the time that it needs. Pure.
class StragglerDetector {
 public:
  explicit StragglerDetector(PeerId self) : self_(self) {}

  /// Operations begin now; durations are measured from here.
  void begin(Time now) { operation_began_ = now; }
  void enter_generation(Time now);
  void leave_generation();
  /// Call when an operation is done. `usual`: its duration predicts the next one's.
  void operation_done(Time now, bool usual);

  /// Called while an operation waits for other peers; `progress` changes with every arrival.
  /// Returns the peers to give up, if any. An empty set means that no peer is lost but data are,
  /// because all peers are waiting.
  std::optional<std::set<PeerId>> watch(Time now, const Generation& generation,
                                        std::uint64_t progress, Duration patience, Effects& out);
  /// Call when no operation is waiting.
  void rest(Time now);
  /// Call when a peer has answered our question.
  void heard(PeerId from, bool busy);
  bool is_asking() const { return checked_at_.has_value(); }

  /// When watch() has work. `waiting`: the operation is waiting now.
  Time deadline(bool waiting, Duration patience) const;

  /// Recent seconds of an operation, smoothed; 0 before the first are done.
  double operation_seconds() const { return operation_seconds_; }

 private:
  static constexpr Duration first_stall_min = std::chrono::seconds(1);

  Duration stall_after() const;

  PeerId self_;
  std::uint64_t seen_progress_ = 0;
  Time progress_at_{};
  double operation_seconds_ = 0;
  Time operation_began_{};
  double factor_ = 1;  ///< Grows while checks find that all peers are well.
  /// The shortest standstill that is checked. Doubles each time data count as lost, until an
  /// operation is done; otherwise peers whose first operation takes long would never finish one.
  Duration stall_min_ = first_stall_min;
  std::optional<Time> checked_at_;
  Time check_again_at_ = never;
  std::set<PeerId> silent_;  ///< Peers that have not answered the check under way.
  bool somebody_busy_ = false;
  int idle_checks_ = 0;
};

}  // namespace gv
