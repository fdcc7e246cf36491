// Measures how fast a peer of a pipeline is by the stages that it carries now.
#pragma once

#include <cstdint>
#include <map>
#include <set>

namespace gv {

/// A peer's speed: the time that passes should take by the plan, divided by the time that they
/// take. It is smoothed over a hundred passes and at least a second, because on a shared machine a
/// pass of microseconds may wait for another program's time slice.
///
/// The speed in a single stage would include the plan's error about that stage, and peers would
/// exchange stages back and forth because of it. So the speed is the mean over all stages that the
/// peer has worked on long enough. A stage that it carries no longer counts by the ratio that its
/// speed there had to its speed in the stages of today: if the peer becomes slower now, the whole
/// mean becomes slower by the same factor. A stage that it carries again is measured again.
class StagePace {
 public:
  /// From now on the peer carries these stages.
  void carry(const std::set<std::uint32_t>& stages);
  /// A pass through a carried stage should take `work_s` by the plan, and took `busy_s`.
  void add(std::uint32_t stage, double work_s, double busy_s);
  /// 0 if not known yet.
  double speed() const { return speed_; }

 private:
  struct Pace {
    double work_s = 0;
    double busy_s = 0;

    bool is_known() const;
    double speed() const { return work_s / busy_s; }
  };
  /// The mean over the carried stages that are known, and how many these are.
  struct Present {
    double speed = 0;
    std::size_t stages = 0;
  };
  Present present() const;

  std::set<std::uint32_t> carried_;
  std::map<std::uint32_t, Pace> paces_;  ///< By stage.
  double speed_ = 0;
};

}  // namespace gv
