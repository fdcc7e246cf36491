// Judges, drawn among the peers, that say whether the swarm has reached its target accuracy.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/time.hpp"
#include "consensus/membership/membership.hpp"
#include "peer/modes/course.hpp"

namespace gv {

/// Finds out whether the swarm has reached its target accuracy. Whenever all peers together have
/// trained on `every` more samples, there is a measurement (a *sitting*), for which three judges
/// are drawn. A judge measures its own model on the test data and reports a verdict. If most judges
/// of a sitting have reached the target, every peer measures its model once. The target is reached
/// when more than half of the training peers had reached it in their last measurement.
///
/// In a pipeline no peer can measure alone, so a panel replaces the drawn judges: the carriers of
/// the last stage. At each sitting all peers test the model together, and each member of the panel
/// has a verdict on its part of the test data. The target is reached when more than half of the
/// panel had it.
///
/// So a normal sitting costs three measurements, however many peers there are. Fewer than a third
/// hostile peers cannot end the run, because honest peers must have reached the target, too. Nor
/// can they delay the end for long: new judges are drawn for each sitting, and more than half of
/// all peers is possible without the hostile ones. Pure.
class Judges {
 public:
  Judges(PeerId self, const TargetOptions& options) : self_(self), options_(options) {}

  bool is_on() const { return options_.value > 0; }
  double target() const { return options_.value; }
  /// Takes over the members' reports. `counted`: samples that all peers have trained on. `panel`:
  /// if not empty, only these peers vote, and no judges are drawn.
  void hear(Time now, std::uint64_t counted, const Membership& members,
            const std::vector<PeerId>* panel = nullptr);

  /// True if we should measure our model with the next job.
  bool is_due() const { return !under_way_ && due_ > (verdict_ ? verdict_->sitting : 0); }
  /// Call when a job that measures has been requested.
  void begin() { begin(std::max(sitting_, due_)); }
  /// Like begin(), for a sitting that all peers agree on.
  void begin(std::uint64_t sitting) { under_way_ = sitting; }
  /// Call when the job is done.
  void learn(double value);
  /// Our last verdict; empty before the first measurement.
  const std::optional<TargetVerdict>& verdict() const { return verdict_; }
  /// The accuracy or R2 of our last measurement.
  double measured() const { return measured_; }

  /// True if most peers had reached the target in their last measurement.
  bool is_reached() const { return reached_since_.has_value(); }
  /// True if that has been the case for this long.
  bool is_reached_for(Time now, Duration time) const {
    return reached_since_ && now >= *reached_since_ + time;
  }
  std::size_t votes() const { return votes_; }
  std::size_t voters() const { return voters_; }

 private:
  /// A peer that trains, and its newest verdict.
  struct Voter {
    PeerId peer{};
    std::optional<TargetVerdict> verdict;
  };

  std::vector<std::size_t> drawn_for(std::uint64_t sitting, const std::vector<Voter>& all) const;
  bool must_measure(std::uint64_t sitting, const std::vector<Voter>& all) const;
  void count_votes(Time now, const std::vector<Voter>& all, const std::vector<PeerId>* panel);

  PeerId self_;
  TargetOptions options_;
  std::optional<Time> heard_;
  std::uint64_t sitting_ = 0;  ///< The present sitting; 0: the first has not begun.
  std::uint64_t due_ = 0;      ///< The newest sitting for which we should measure our model.
  std::optional<std::uint64_t> under_way_;  ///< The sitting for which a job is measuring it.
  std::optional<TargetVerdict> verdict_;
  double measured_ = 0;
  std::optional<Time> reached_since_;
  std::size_t votes_ = 0;  ///< Peers that had reached the target in their last measurement.
  /// Peers that train or have just stopped, including us; or all of the panel.
  std::size_t voters_ = 0;
};

}  // namespace gv
