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
/// rests, so that it gets at most `share` of our time. At first it rests no longer than
/// `first_rest_max`, because its link may recover. Once its slow exchanges have taken `grace`
/// longer than its share, the limit is `rest_max`: even a very slow partner gets about one exchange
/// in that time. If we are slow ourselves, all partners look equally slow, and none rests.
class PartnerTimes {
 public:
  static constexpr double slow_factor = 4;
  static constexpr double share = 0.02;
  static constexpr Duration first_rest_max = std::chrono::seconds(45);
  static constexpr Duration rest_max = std::chrono::hours(1);
  static constexpr Duration grace = std::chrono::minutes(5);
  /// An exchange is given up if it takes longer than the larger of these: a time, and a multiple of
  /// the usual time. Links of one swarm may differ in their speeds by a factor of 100.
  static constexpr Duration exchange_least = std::chrono::minutes(5);
  static constexpr double exchange_factor = 256;
  /// An exchange shorter than this never counts as slow, because a busy machine can cause such
  /// delays.
  static constexpr Duration never_slow = std::chrono::milliseconds(100);
  /// Number of recent exchanges from which the usual time is computed.
  static constexpr std::size_t recent_max = 15;

  /// Notes that an exchange with `partner` that began at `began` ended now.
  void note(Time now, PeerId partner, Time began);

  /// Notes that the partner has ended an exchange that began at `began`, without effect. If it was
  /// slow, the partner rests. It does not count towards the usual time.
  void note_aborted(Time now, PeerId partner, Time began);

  /// Notes that the partner let an exchange that began at `began` hang until we gave up. The
  /// partner then rests, however few partners we know.
  void note_hanging(Time now, PeerId partner, Time began);

  /// Notes that we gave up an exchange that began at `began`, because the partner was silent or its
  /// lane broke too often. It counts like any exchange. The partner also rests for at least as long
  /// as the exchange took, up to `first_rest_max`. So it gets no more than half of our time even
  /// while the usual time of exchanges is unknown.
  void note_unanswered(Time now, PeerId partner, Time began);

  bool is_resting(Time now, PeerId partner) const;

  /// When to give up an exchange with `partner` that begins now. `never` while the usual time of
  /// exchanges is unknown, because the first ones may take long for good reasons.
  Time give_up_at(Time now, PeerId partner) const;

  /// Number of entries kept: at most one for each peer ever met, plus `recent_max`.
  std::size_t held() const { return recent_.size() + slow_.size(); }

  friend class Fields;
  static constexpr std::size_t field_count = 2;

 private:
  /// A partner whose exchanges were slow.
  struct Slow {
    Time rests_until{};
    /// By this time its slow exchanges will have taken no more than its share of our time.
    Time owes_until{};
  };

  Duration usual_without(PeerId partner) const;
  bool is_slow(PeerId partner, Duration took) const;
  void rest(Time now, PeerId partner, Duration took);

  std::deque<std::pair<PeerId, Duration>> recent_;
  std::map<PeerId, Slow> slow_;
};

}  // namespace gv
