// Measures how fast a pipeline peer is, over all stages that it has carried.
#pragma once

#include <cstdint>
#include <map>
#include <set>

namespace gv {

/// Measures a peer's speed: the planned time of its passes divided by their actual time. The speed
/// is smoothed over a hundred passes and at least a second. Otherwise a pass of microseconds that
/// waits for another program's time slice would distort it.
///
/// A speed measured in a single stage would include the plan's error for that stage, and so make
/// peers exchange stages again and again. Therefore the speed is the mean over all stages that the
/// peer has worked on long enough. For a stage that the peer no longer carries, the ratio between
/// the speed there and the mean speed in the present stages is kept: if the peer becomes slower,
/// the mean falls by the same factor. If the peer carries a stage again, that stage is measured
/// again.
class StagePace {
 public:
  /// Call when the peer begins to carry exactly these stages.
  void carry(const std::set<std::uint32_t>& stages);
  /// Adds a pass through a carried stage. The plan expected the pass to take `work_s` seconds, and
  /// it took `busy_s`.
  void add(std::uint32_t stage, double work_s, double busy_s);
  /// The peer's speed; 0 if it is not known yet.
  double speed() const { return speed_; }

 private:
  struct Pace {
    double work_s = 0;
    double busy_s = 0;

    bool is_known() const;
    double speed() const { return work_s / busy_s; }
  };
  /// The mean speed over those carried stages whose speed is known, and the number of these stages.
  struct Present {
    double speed = 0;
    std::size_t stages = 0;
  };
  Present present() const;

  std::set<std::uint32_t> carried_;
  std::map<std::uint32_t, Pace> paces_;  ///< The measured pace in each stage.
  double speed_ = 0;
};

}  // namespace gv
