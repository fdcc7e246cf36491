// Lets judges, drawn among the peers, find out whether the swarm has reached its target.
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

/// Finds out whether the swarm has reached its target accuracy. Each time all peers together have
/// trained on `every` more samples, there is a *sitting*, for which three peers are drawn as
/// judges. A judge measures its own model on the test data and reports a verdict. If most judges of
/// a sitting have reached the target, every peer measures its model once. The target is reached
/// when more than half of the training peers reached it in their last measurement.
///
/// In a pipeline no peer can measure alone, so the carriers of the last stage form a panel, which
/// replaces the drawn judges. At each sitting all peers test the model together, and each member of
/// the panel reports a verdict on its part of the test data. The target is reached when more than
/// half of the panel reached it.
///
/// A sitting without success costs three measurements, however many peers there are. Hostile peers
/// cannot end the run if they are fewer than a third of all peers, because honest peers must have
/// reached the target too. Nor can they delay the end for long, because new judges are drawn for
/// each sitting, and the honest peers alone are more than half of all peers. Pure.
class Judges {
 public:
  Judges(PeerId self, const TargetOptions& options) : self_(self), options_(options) {}

  bool is_on() const { return options_.value > 0; }
  double target() const { return options_.value; }
  /// Takes over the members' reports. `counted` is the number of samples that all peers have
  /// trained on. If `panel` is not null, only its members vote, and no judges are drawn.
  void hear(Time now, std::uint64_t counted, const Membership& members,
            const std::vector<PeerId>* panel = nullptr);

  /// True if we should measure our model with the next job.
  bool is_due() const { return !under_way_ && due_ > (verdict_ ? verdict_->sitting : 0); }
  /// Call when a job that measures has been requested.
  void begin() { begin(std::max(sitting_, due_)); }
  /// Like begin(), for a sitting on which all peers agree.
  void begin(std::uint64_t sitting) { under_way_ = sitting; }
  /// Call with the measured value when the measuring job is done.
  void learn(double value);
  /// Our last verdict; empty before the first measurement.
  const std::optional<TargetVerdict>& verdict() const { return verdict_; }
  /// The accuracy or R2 of our last measurement.
  double measured() const { return measured_; }

  /// True if most voters had reached the target in their last measurement.
  bool is_reached() const { return reached_since_.has_value(); }
  /// True if most voters have stayed at the target for at least this time.
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
  std::uint64_t sitting_ = 0;  ///< The present sitting; 0 before the first.
  /// The newest sitting for which we should measure our model; 0 if there is none.
  std::uint64_t due_ = 0;
  std::optional<std::uint64_t> under_way_;  ///< The sitting for which a job is measuring our model.
  std::optional<TargetVerdict> verdict_;
  double measured_ = 0;
  std::optional<Time> reached_since_;
  std::size_t votes_ = 0;  ///< Voters that reached the target in their last measurement.
  /// Number of voters: the peers that train or have just stopped, including ourselves, or all
  /// members of the panel.
  std::size_t voters_ = 0;
};

}  // namespace gv
