// How long exchanges with each partner take, and which partners rest because they are slow.
#pragma once

#include <cstddef>
#include <deque>
#include <map>
#include <utility>

#include "base/ids.hpp"
#include "base/time.hpp"

namespace gv {

/// A peer is in one exchange at a time, so a partner behind a slow link keeps it from exchanges
/// with others. If an exchange with a partner took `slow_factor` times the median of the other
/// partners, this partner then rests, so that it gets at most `share` of our time. It rests no
/// longer than `rest_max`, as its link may recover. To a peer that is slow itself all partners look
/// equally slow, so it lets none rest.
class PartnerTimes {
 public:
  static constexpr double slow_factor = 4;
  static constexpr double share = 0.02;
  static constexpr Duration rest_max = std::chrono::seconds(45);
  /// A shorter exchange is never slow, because a machine's load causes delays of this length.
  static constexpr Duration never_slow = std::chrono::milliseconds(100);
  /// Recent exchanges whose times say what is usual.
  static constexpr std::size_t recent_max = 15;

  /// An exchange with `partner` that began at `began` ended now.
  void note(Time now, PeerId partner, Time began);

  /// The partner let an exchange that began at `began` hang until we gave up. The partner then
  /// rests, however few partners we know.
  void note_hanging(Time now, PeerId partner, Time began);

  /// We gave up an exchange that began at `began` because the partner was silent or its lane broke
  /// too often. Counts like any exchange; the partner also rests for at least as long as this took,
  /// so that it gets no more than half of our time before we know what is usual.
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
