// Tells lost peers from slow ones when an operation makes no progress.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>

#include "base/time.hpp"
#include "consensus/generation/agreement.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// If no data have arrived for a long time, asks all peers for their status. A peer that does not
/// answer counts as lost. A peer that is computing gets all the time it needs. Pure.
class StragglerDetector {
 public:
  explicit StragglerDetector(PeerId self) : self_(self) {}

  /// Call when operations begin. The first duration is measured from here.
  void begin(Time now) { operation_began_ = now; }
  void enter_generation(Time now);
  void leave_generation();
  /// Call when an operation is done. `usual` means that its duration predicts the duration of the
  /// next one.
  void operation_done(Time now, bool usual);

  /// Call while an operation waits for other peers. `progress` must change with every arrival.
  /// Returns the peers to give up, if any. An empty set means that data were lost but no peer was,
  /// because all peers are waiting.
  std::optional<std::set<PeerId>> watch(Time now, const Generation& generation,
                                        std::uint64_t progress, Duration patience, Effects& out);
  /// Call when no operation waits for other peers.
  void rest(Time now);
  /// Call when a peer has answered our question. `busy` means that the peer is computing.
  void heard(PeerId from, bool busy);
  bool is_asking() const { return checked_at_.has_value(); }

  /// When to call watch() next. `waiting` means that an operation is waiting now.
  Time deadline(bool waiting, Duration patience) const;

  /// The recent duration of an operation in seconds, smoothed; 0 before the first one is done.
  double operation_seconds() const { return operation_seconds_; }

 private:
  static constexpr Duration first_stall_min = std::chrono::seconds(1);

  Duration stall_after() const;

  PeerId self_;
  std::uint64_t seen_progress_ = 0;
  Time progress_at_{};
  double operation_seconds_ = 0;
  Time operation_began_{};
  double factor_ = 1;  ///< A factor on the usual duration. Grows while checks find all peers well.
  /// The shortest time without progress that leads to a check. Doubles each time data count as
  /// lost, until an operation is done. Without this, peers whose first operation takes long would
  /// never finish one.
  Duration stall_min_ = first_stall_min;
  std::optional<Time> checked_at_;
  Time check_again_at_ = never;
  std::set<PeerId> silent_;  ///< Peers that have not answered the check under way.
  bool somebody_busy_ = false;
  int idle_checks_ = 0;
};

}  // namespace gv
