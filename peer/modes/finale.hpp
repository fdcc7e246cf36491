// Ends a run once the swarm's budget is used up: all peers stop and adopt the mean of their models.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "peer/modes/allreduce_options.hpp"
#include "peer/modes/mode.hpp"
#include "peer/modes/swarm_work.hpp"

namespace gv {

/// The smallest number of a ballot about the mean. A mode's own ballots have smaller numbers.
inline constexpr std::uint64_t first_ballot_of_mean = std::uint64_t{1} << 61;

/// Follows the swarm's budget, and ends the run. Once the budget is used up, a peer stops training
/// and waits until all live peers have stopped, but at most ten seconds. Then a collective of mode
/// `allreduce` computes the mean of their models, so all peers end with the same bits, even if some
/// die meanwhile. A peer that is late or joins later downloads the mean, or a model that others are
/// about to average; in that case it takes part in their mean. While a known peer is missing, the
/// others linger and wait for it. If groups have ended separately and meet while they linger, all
/// of them adopt the mean that contains the most models. A mode owns one object of this class.
/// While mean() is not null, the mode passes all messages, blocks and jobs to it.
///
/// The step in the mean's version is beyond all real steps. The replica's own step becomes the
/// largest step that more than a third of the peers have reached, but never falls. The checkpoint
/// notes how the run ended. A peer that resumes from it with the same limits already has the mean.
/// If the budget, the time or the target is raised, the peer trains further. Pure.
class Finale {
 public:
  Finale(PeerId self, std::uint64_t session, const CourseOptions& course,
         const AllReduceOptions& mean, const Signer& signer, const Rng& draws);

  /// False if each peer has its own budget. In that case none of the functions below is called.
  bool is_on() const { return work_.is_on(); }
  SwarmWork& work() { return work_; }
  const SwarmWork& work() const { return work_; }
  /// The step in the mean's version. It is larger than the number of steps that all peers make
  /// together, whatever their batches are.
  std::uint64_t last_step() const;

  /// True if training must end because, as far as we know, the run has reached its budget, time or
  /// target. Also true if more than a third of the live peers have stopped because the run is
  /// ending. Called while we train. `in_step` means that the version says how much all peers have
  /// trained.
  bool is_due(Time now, bool in_step, const Membership& members, Effects& out);
  /// True if more than a third of the live peers have stopped training because the run is ending.
  bool has_ended_for_a_third(const Membership& members) const;
  /// True once, when training has to end, either because `is_due` is true or because we join after
  /// the end. From then on the mode begins no steps and no work with others. `step` is the step of
  /// our model. The first model of a late peer must not enter the mean.
  bool ends(bool is_due, std::uint64_t step, Course& course, const Membership& members,
            Effects& out);
  bool is_ending() const { return is_ending_; }
  /// Begins the mean once all peers have stopped, and then follows it. `is_still` means that
  /// neither a job nor work with others is under way. Returns true if the mean has begun and no
  /// other work is left.
  bool follow(Time now, bool is_still, const Mode& mode, Course& course, Membership& members,
              Effects& out, std::vector<Job>& jobs);

  /// True if the message is for mean() instead of the mode.
  bool is_for_mean(const Message& message) const;
  /// The mode that computes the mean; null before the mean has begun.
  Mode* mean() { return mean_.get(); }
  const Mode* mean() const { return mean_.get(); }
  /// When this peer stops waiting for others and begins the mean.
  Time deadline() const;

 private:
  bool is_done_elsewhere(const Membership& members) const;
  bool are_others_ready(Time now, const Membership& members);
  void begin(Time now, const Course& course, const Membership& members);
  MeanEnd mean_end(const Course& course, const Membership& members) const;

  PeerId self_;
  std::uint64_t session_;
  CourseOptions course_;
  AllReduceOptions options_;
  const Signer* signer_;
  Rng draws_;
  SwarmWork work_;
  std::optional<Time> heard_;  ///< When we last added up the other peers' reports.
  /// True if, in the reports that we last added up, more than a third of the peers had ended.
  bool others_have_ended_ = false;
  RunEnd end_;  ///< The limits of the run, and which of them have been reached.
  bool is_ending_ = false;
  bool has_mean_ = false;       ///< True if we resumed with the mean and have not trained since.
  std::uint64_t end_step_ = 0;  ///< The replica's step once it has the mean.
  std::optional<Time> still_since_;
  bool has_waited_ = false;  ///< True if we have waited long enough for peers that still train.
  /// The step of our model; empty if the model must not enter the mean.
  std::optional<std::uint64_t> step_;
  std::unique_ptr<Mode> mean_;
};

}  // namespace gv
