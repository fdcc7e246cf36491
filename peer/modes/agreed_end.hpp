// The end of a run before its budget is used up, agreed between peers in lockstep.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "peer/modes/course.hpp"
#include "peer/modes/generations.hpp"
#include "peer/modes/swarm_work.hpp"

namespace gv {

/// Ends a run at one version of all peers, once its time is over or its target is reached. A peer
/// that sees this asks for a ballot. In its answer each peer says whether it sees the same, and the
/// next generation says whether training ends with its first version. A peer takes no decision that
/// contradicts its own clock, or the verdicts that it has heard, by more than three seconds. Each
/// mode in which all peers work in lockstep owns one. Pure.
class AgreedEnd {
 public:
  /// Asks for a ballot once the time of the run is over or its target is reached. Called in every
  /// tick. `panel`: see Judges.
  void follow(Time now, const Course& course, const Membership& members, SwarmWork& work,
              Generations& generations, Effects& out, const std::vector<PeerId>* panel = nullptr);
  /// What we see of the end, as of follow().
  EndView view() const { return view_; }
  /// Adopts what a ballot has decided. Without a common end, only hostile peers report one, and we
  /// do not repeat it.
  void enter(const Generation& generation, const SwarmWork& work, Agreement& agreement);
  /// Call when our version has changed, because it says how much of the swarm's budget is used up.
  /// All peers together take `together` samples in each step.
  void follow_budget(Time now, std::uint64_t together, SwarmWork& work, Course& course,
                     const ModelVersion& version) const;

 private:
  EndView seen(Time now, bool trains, const Membership& members, const SwarmWork& work);
  bool is_told_of_end(Time now, const Membership& members, const SwarmWork& work);

  std::optional<std::uint64_t> at_;  ///< The step at which all agreed to end.
  std::optional<Time> done_at_;      ///< When we first saw that we were done.
  Time asked_at_{};
  EndView view_ = EndView::open;
  std::optional<Time> told_at_;  ///< When we last read how long the others have trained.
  bool is_told_ = false;         ///< True if the end was near by what we read then.
};

}  // namespace gv
