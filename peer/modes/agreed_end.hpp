// Lets peers in lockstep agree on the end of a run before its budget is used up.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "peer/modes/course.hpp"
#include "peer/modes/generations.hpp"
#include "peer/modes/swarm_work.hpp"

namespace gv {

/// Ends a run at the same version for all peers once its time is over or its target is reached. A
/// peer that observes either condition asks for a ballot. Each peer states in its answer whether it
/// observes one of them too. The next generation states whether training ends with that
/// generation's first version. A peer rejects a decision that contradicts its own clock, or the
/// verdicts it has received, by more than three seconds. Each mode in which all peers work in
/// lockstep owns one object of this class. Pure.
class AgreedEnd {
 public:
  /// Asks for a ballot once the time of the run is over or its target is reached. Call in every
  /// tick. For `panel`, see Judges.
  void follow(Time now, const Course& course, const Membership& members, SwarmWork& work,
              Generations& generations, Effects& out, const std::vector<PeerId>* panel = nullptr);
  /// Our view of the end at the last call of follow().
  EndView view() const { return view_; }
  /// Adopts the decision of a ballot. Ignores it if the run has no common end, because then only
  /// hostile peers report one.
  void enter(const Generation& generation, const SwarmWork& work, Agreement& agreement);
  /// Call when our version has changed. Updates the used part of the swarm's budget and the step at
  /// which the run ends. `together` is the number of samples that all peers take in one step. The
  /// first call is with our first version, which may come from the checkpoint of a run that has
  /// ended. If no limit that ended that run is higher now, and more than a third of the peers
  /// agree, the run ends with that version.
  void follow_budget(Time now, std::uint64_t together, SwarmWork& work, Course& course,
                     const ModelVersion& version);
  /// The note for a checkpoint. `is_end` means that the run ends with its model.
  SwarmNote note(Time now, bool is_end, const SwarmWork& work) const;

 private:
  EndView seen(Time now, bool trains, const Membership& members, const SwarmWork& work);
  bool is_told_of_end(Time now, const Membership& members, const SwarmWork& work);

  std::optional<std::uint64_t> at_;  ///< The step at which all agreed to end.
  bool has_begun_ = false;           ///< True once follow_budget() was called.
  std::optional<Time> done_at_;      ///< When we first saw that we were done.
  Time asked_at_{};
  EndView view_ = EndView::open;
  /// When we last read the others' reports about how long they have trained.
  std::optional<Time> told_at_;
  bool is_told_ = false;  ///< True if the other peers' last reports showed that the end was near.
};

}  // namespace gv
