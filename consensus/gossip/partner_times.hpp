// How long exchanges with each partner take, and which partners rest because they are slow.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <utility>

#include "base/ids.hpp"
#include "base/time.hpp"

namespace gv {

/// Decides which partners rest, that is, get no exchanges for a while. A peer is in one exchange at
/// a time, so an exchange over a slow link holds up those with other partners. If an exchange took
/// more than `slow_factor` times the median time of exchanges with other partners, its partner
/// rests. So the partner gets at most `share` of our time. A partner rests no longer than
/// `rest_max`, because its link may recover. If we are slow ourselves, all partners look equally
/// slow, and none rests.
class PartnerTimes {
 public:
  static constexpr double slow_factor = 4;
  static constexpr double share = 0.02;
  static constexpr Duration rest_max = std::chrono::seconds(45);
  /// An exchange shorter than this never counts as slow, because a busy machine can cause such
  /// delays.
  static constexpr Duration never_slow = std::chrono::milliseconds(100);
  /// Number of recent exchanges from which the usual time is computed.
  static constexpr std::size_t recent_max = 15;

  /// Notes that an exchange with `partner` that began at `began` ended now.
  void note(Time now, PeerId partner, Time began);

  /// Notes that the partner let an exchange that began at `began` hang until we gave up. The
  /// partner then rests, however few partners we know.
  void note_hanging(Time now, PeerId partner, Time began);

  /// Notes that we gave up an exchange that began at `began`, because the partner was silent or its
  /// lane broke too often. It counts like any exchange. The partner also rests for at least as long
  /// as the exchange took, up to `rest_max`. So it gets no more than half of our time even while
  /// the usual time of exchanges is unknown.
  void note_unanswered(Time now, PeerId partner, Time began);

  bool is_resting(Time now, PeerId partner) const;

  /// Number of entries kept: at most one for each peer ever met, plus `recent_max`.
  std::size_t held() const { return recent_.size() + resting_until_.size(); }

  friend class Fields;
  static constexpr std::size_t field_count = 2;

 private:
  Duration usual_without(PeerId partner) const;
  void rest(Time now, PeerId partner, Duration took);

  std::deque<std::pair<PeerId, Duration>> recent_;
  std::map<PeerId, Time> resting_until_;
};

}  // namespace gv
