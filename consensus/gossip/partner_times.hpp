// How long exchanges take with whom, and who has had its share of our time.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <utility>

#include "base/ids.hpp"
#include "base/time.hpp"

namespace gv {

/// A peer is in one exchange at a time, so a partner behind a slow link takes from it what
/// exchanges with the others would have been. A partner whose exchange took `slow_factor` times as
/// long as is usual with the others (their median) then rests for so long that at most `share` of
/// our time goes to it, but no longer than `rest_max`, since its link may be good again. A peer
/// that is slow itself finds all alike and lets none rest.
class PartnerTimes {
 public:
  static constexpr double slow_factor = 4;
  static constexpr double share = 0.02;
  static constexpr Duration rest_max = std::chrono::seconds(45);
  /// Whatever takes less is not slow: so much comes and goes with the load of a machine.
  static constexpr Duration never_slow = std::chrono::milliseconds(100);

  /// An exchange with `partner` that began at `began` ended now.
  void note(Time now, PeerId partner, Time began);

  bool is_resting(Time now, PeerId partner) const;

  /// At most one entry for each peer ever met, and 15.
  std::size_t held() const { return recent_.size() + resting_until_.size(); }

 private:
  Duration usual_without(PeerId partner) const;

  std::deque<std::pair<PeerId, Duration>> recent_;
  std::map<PeerId, Time> resting_until_;
};

}  // namespace gv
