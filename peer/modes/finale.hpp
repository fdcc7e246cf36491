// The common end of a swarm's budget: all peers stop together and become the mean of their models.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "peer/modes/allreduce_options.hpp"
#include "peer/modes/mode.hpp"
#include "peer/modes/swarm_work.hpp"

namespace gv {

/// Ballots about the mean have this number or a larger one; a mode's ballots have smaller ones.
inline constexpr std::uint64_t first_ballot_of_mean = std::uint64_t{1} << 61;

/// Follows the swarm's budget, and ends it. Once the budget is used up, a peer stops training and
/// waits until all live peers have stopped, or for ten seconds. Then a collective of mode
/// `allreduce` computes the mean of their models, so all peers end with the same bits, even if some
/// die meanwhile. A peer that was late or joins later downloads the mean; while a known peer is
/// missing, the others wait for it as long as they linger. Groups that have ended apart and meet
/// meanwhile all take the mean of more models. A mode owns one, and passes all messages, blocks and
/// jobs to mean() while that is not null.
///
/// The mean's version is beyond all steps. The replica stays at the most steps that over a third of
/// the peers report, or at its own if these are more, and its checkpoint notes how the run ended. A
/// peer that resumes from there with the same limits has the mean; with a higher budget, a later
/// time or a higher target it trains on. Pure.
class Finale {
 public:
  Finale(PeerId self, std::uint64_t session, const CourseOptions& course,
         const AllReduceOptions& mean, const Signer& signer, const Rng& draws);

  /// False if each peer has its own budget. Then no function below is called.
  bool is_on() const { return work_.is_on(); }
  SwarmWork& work() { return work_; }
  const SwarmWork& work() const { return work_; }
  /// The step of the common mean. It is above the number of steps that all peers make together,
  /// whatever their batches are.
  std::uint64_t last_step() const;

  /// True if, as far as we know, the budget is used up, the time is over or the target is reached,
  /// or if more than a third of the live peers have stopped training for such a reason. Called
  /// while we train. `in_step`: the version says how much all have trained.
  bool is_due(Time now, bool in_step, const Membership& members, Effects& out);
  /// True if more than a third of the live peers have stopped training at the end.
  bool has_ended_for_a_third(const Membership& members) const;
  /// True once, when training has to end: because it `is_due`, or because we join after the end.
  /// The mode then begins no further step and no work with others. `step` is that of our model. A
  /// late peer's first model must not enter the mean.
  bool ends(bool is_due, std::uint64_t step, const Course& course, const Membership& members,
            Effects& out);
  bool is_ending() const { return is_ending_; }
  /// Begins the mean once all peers have stopped, and follows it. `is_still`: neither a job of ours
  /// nor work with others is under way. Returns true if the mean has begun and no other work is
  /// left.
  bool follow(Time now, bool is_still, const Mode& mode, Course& course, Membership& members,
              Effects& out, std::vector<Job>& jobs);

  /// True if the message is for mean() and not for the mode.
  bool is_for_mean(const Message& message) const;
  /// Computes the mean; null before that has begun.
  Mode* mean() { return mean_.get(); }
  const Mode* mean() const { return mean_.get(); }
  /// When this peer stops waiting for others.
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
  std::optional<Time> heard_;       ///< When we last added up the others' reports.
  bool others_have_ended_ = false;  ///< True if more than a third of the others had ended at that
                                    ///< time.
  RunEnd end_;  ///< The limits of the run, and those that we know to be reached.
  bool is_ending_ = false;
  bool has_mean_ = false;  ///< True if we have resumed with the mean, and have not trained since.
  std::uint64_t end_step_ = 0;  ///< The replica's step with the mean.
  std::optional<Time> still_since_;
  bool has_waited_ = false;  ///< True if we have waited long enough for peers that train on.
  std::optional<std::uint64_t> step_;  ///< The step of our model; empty if our model must not enter
                                       ///< the mean.
  std::unique_ptr<Mode> mean_;
};

}  // namespace gv
