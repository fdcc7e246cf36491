// The course of one peer's training, which all modes share: barrier, phases, jobs, saves, leaving.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "consensus/membership/membership.hpp"
#include "consensus/message/effects.hpp"
#include "peer/node/job.hpp"

namespace gv {

class Mode;

/// When a swarm has learned enough to end (see Judges).
struct TargetOptions {
  double value = 0;         ///< Target accuracy, or R2 for data with targets; 0: no target.
  std::uint64_t every = 1;  ///< Samples of all peers between two measurements by judges.
  std::uint64_t seed = 1;   ///< Seed for drawing judges; the same at all peers.
};

/// How a batch grows while the budget is used up (Smith 2018). The growth is a function of the
/// samples that all peers have trained on. So peers that agree on these samples agree on their
/// batches, and a run that resumes from a checkpoint needs no other number.
struct BatchGrowth {
  std::vector<std::uint64_t> at;  ///< Numbers of samples after which the batch grows, ascending.
  std::uint64_t factor = 1;       ///< Factor of each growth.

  /// The factor on the first batch after that number of samples.
  std::uint64_t after(std::uint64_t samples) const {
    std::uint64_t growth = 1;
    for (const std::uint64_t each : at) growth *= samples >= each ? factor : 1;
    return growth;
  }
  /// The factor on the first batch at the end of the run.
  std::uint64_t most() const { return after(std::numeric_limits<std::uint64_t>::max()); }
};

/// A budget that all peers of a run share.
struct SwarmWorkOptions {
  std::uint64_t budget = 0;  ///< Samples that all peers train on together; 0: each peer has its own
                             ///< budget.
  std::uint64_t batch = 1;   ///< Samples of one of our steps, before it grows.
  BatchGrowth growth;        ///< Growth of the batch.
  std::uint64_t data = 0;    ///< Samples of our shard.
  std::uint64_t all_data = 0;  ///< Samples of all shards together; 0: not known.
  /// True if each peer has its own files of any size. `all_data` then counts only ours.
  bool has_own_files = false;
  double weigh_max = 4;  ///< The largest factor on our updates; 1: always 1.
  Duration wall{};  ///< The run ends when all peers have trained for this long, if not earlier; 0:
                    ///< never.
  TargetOptions target;  ///< The run ends when most peers have reached this target, if not earlier.
  /// Steps of a chunk; 0: data are not leased, and each peer has its own.
  std::uint64_t chunk_steps = 0;
  SwarmNote resumed;  ///< The note of our checkpoint, or of the mode from which we have switched.
  std::uint64_t own = 0;  ///< Samples in `resumed` that this process has trained on.
};

/// How a peer begins, saves and ends, in every mode.
struct CourseOptions {
  std::uint64_t run_seed = 1;
  std::uint64_t steps = 0;             ///< The training budget in optimiser steps.
  SwarmWorkOptions work;               ///< The budget that all peers share, if they do.
  std::uint64_t save_every_steps = 0;  ///< Steps between two checkpoints; 0: only the last one is
                                       ///< saved.
  std::size_t wait_for_peers = 1;      ///< Peers to wait for before training, self included.
  Duration wait_max = std::chrono::seconds(20);  ///< After this time begin even with fewer peers.
  Duration linger = std::chrono::seconds(60);    ///< How long to serve others after the budget is
                                                 ///< used up.
  std::uint64_t layout_hash = 0;
  /// The fingerprint of a user's own first model; 0: the seed's model, equal on all peers.
  std::uint64_t first_model = 0;
  std::size_t elements = 0;  ///< Parameters of the model.
  /// True if the course tells other peers of our phases and reports them. False for a course within
  /// another one.
  bool tells = true;
  /// The first version of a peer whose model is the mean of a switch; equal at all peers of that
  /// mean. Empty: derived from the step and the checkpoint.
  std::optional<ModelVersion> version;
  /// True if peers that died before they were done may be asleep. Then stay for them at the end, or
  /// they would go on alone.
  bool waits_for_dead = false;
};

/// Checkpoints since the start.
struct SaveCounts {
  std::uint64_t written = 0;
  std::uint64_t failed = 0;
};

/// Weight of the newest value in the running averages.
constexpr double recent_weight = 0.1;

/// Follows a peer from joining through training to the end, and the jobs that it has requested.
/// Every mode owns one. Pure.
class Course {
 public:
  Course(PeerId self, const CourseOptions& options) : self_(self), options_(options) {}

  const CourseOptions& options() const { return options_; }
  std::uint64_t steps() const { return options_.steps; }
  /// Sets the step at which the swarm's budget will be used up, as far as we know.
  void set_steps(std::uint64_t steps) { options_.steps = steps; }

  /// Call once, when the replica exists and is at `step`. With `joins_others`, training waits for a
  /// first contact, but no longer than `wait_max`.
  void start(Time now, std::uint64_t step, bool joins_others);
  /// Begins no new work with other peers from now on. Without a replica this ends the course.
  void leave();
  /// While `held`, training must not end together with that of all others (Mode::hold_end).
  void hold_end(bool held) { holds_end_ = held; }
  bool holds_end() const { return holds_end_; }
  /// Another mode is about to replace this one: no further step begins, and no work with other
  /// peers.
  void wind_down() { winds_down_ = true; }
  bool winds_down() const { return winds_down_; }
  /// True once after wind_down(): the next job lets the replica forget the state of this mode.
  bool takes_parting() { return winds_down_ && !std::exchange(has_parted_, true); }
  /// True once that job is done and no other job is under way.
  bool has_parted() const { return has_parted_ && jobs_under_way_ == 0; }
  /// While `apart`, another peer may be done with another model, so we linger even if all others
  /// are done.
  void set_apart(bool apart) { is_apart_ = apart; }
  /// Call when this peer cannot go on.
  void fail() { failed_ = true; }

  bool is_started() const { return started_; }
  bool is_leaving() const { return leaving_; }
  bool has_failed() const { return failed_; }
  /// True once the last job is done.
  bool is_finished() const { return finished_; }
  bool is_running() const { return started_ && !finished_; }
  /// True if it is time to leave: the budget is used up and no peer needs us any more, or we cannot
  /// go on. `idle`: no result is waiting for the next job.
  bool is_over(const Membership& members, bool idle) const;

  // ---- Phases ----

  Phase phase() const { return phase_; }
  /// Enters a phase and announces it at once with the mode's progress, because other peers base
  /// decisions on it (which peers to ask, whether to linger).
  void enter(Time now, Phase phase, const Mode& mode, Membership& members, Effects& out);
  void become_training(Time now, std::size_t peers, const Mode& mode, Membership& members,
                       Effects& out);
  void become_done(Time now, const Mode& mode, Membership& members, Effects& out);

  /// True if `present` peers, including us, are enough to begin, or if we have waited long enough.
  bool is_barrier_open(Time now, std::size_t present) const;
  Time barrier_deadline() const { return waiting_since_ + options_.wait_max; }
  void end_lingering(Time now);
  Time linger_deadline() const;

  // ---- Jobs ----

  /// Gives the job the next number and requests it.
  void post(Job job, std::vector<Job>& jobs);
  /// Makes the next requested job this peer's last.
  void make_next_job_last() { last_job_ = true; }
  /// Call when the oldest job under way is done.
  void job_done(const JobDone& done);
  /// Jobs requested and not done: at most one, or two in a pipeline.
  std::size_t jobs_under_way() const { return jobs_under_way_; }
  bool is_last_job_asked() const { return last_job_; }
  /// The step of the replica after the newest job that is done. A job that was under way when its
  /// mode stopped may have left the replica ahead of the mode.
  std::uint64_t replica_step() const { return replica_step_; }
  /// The number of the next requested job.
  std::uint64_t next_job_number() const { return job_number_ + 1; }

  bool is_save_due(std::uint64_t step) const;
  std::uint64_t saved_step() const { return saved_step_; }
  /// Another model, of this step, replaced ours, so checkpoints of later steps no longer count.
  void go_back_to(std::uint64_t step);
  const SaveCounts& saves() const { return saves_; }

  // ---- Running averages ----

  void learn_from(const Score& score);
  /// Mean training loss and accuracy over the last jobs (exponential average).
  double recent_loss() const { return recent_loss_; }
  double recent_accuracy() const { return recent_accuracy_; }
  double learning_rate() const { return learning_rate_; }
  void set_learning_rate(double rate) { learning_rate_ = rate; }

 private:
  bool others_done(const Membership& members) const;

  PeerId self_;
  CourseOptions options_;
  Phase phase_ = Phase::joining;
  bool started_ = false;
  bool joins_others_ = false;
  bool leaving_ = false;
  bool finished_ = false;
  bool failed_ = false;
  bool holds_end_ = false;
  bool winds_down_ = false;
  bool has_parted_ = false;
  bool linger_over_ = false;
  bool is_apart_ = false;
  Time waiting_since_{};
  Time done_since_{};
  std::size_t jobs_under_way_ = 0;
  std::uint64_t job_number_ = 0;
  bool last_job_ = false;
  std::uint64_t replica_step_ = 0;
  std::uint64_t saved_step_ = 0;
  SaveCounts saves_;
  bool scored_ = false;
  double recent_loss_ = 0;
  double recent_accuracy_ = 0;
  double learning_rate_ = 0;
};

}  // namespace gv
