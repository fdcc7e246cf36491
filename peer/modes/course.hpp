// Follows one peer's training in every mode: the barrier, phases, jobs, saves and leaving.
#pragma once

#include <algorithm>
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

/// The target that ends a swarm's run once it is reached (see Judges).
struct TargetOptions {
  double value = 0;         ///< Target accuracy, or R2 for data with targets; 0: no target.
  std::uint64_t every = 1;  ///< Samples that all peers take between two measurements by judges.
  std::uint64_t seed = 1;   ///< Seed for drawing judges; the same at all peers.
};

/// How the batch grows while the budget is used up (Smith 2018). The growth depends only on the
/// number of samples that all peers have trained on. So peers that agree on that number agree on
/// their batches, and a run that resumes from a checkpoint needs no other information.
struct BatchGrowth {
  /// The numbers of samples after which the batch grows, ascending.
  std::vector<std::uint64_t> at;
  std::uint64_t factor = 1;  ///< Each growth multiplies the batch by this factor.

  /// The batch after this number of samples, as a multiple of the first batch.
  std::uint64_t after(std::uint64_t samples) const {
    std::uint64_t growth = 1;
    for (const std::uint64_t each : at) growth *= samples >= each ? factor : 1;
    return growth;
  }
  /// The batch at the end of the run, as a multiple of the first batch.
  std::uint64_t most() const { return after(std::numeric_limits<std::uint64_t>::max()); }
};

/// The budget and the limits that all peers of a run share, and our part of the data.
struct SwarmWorkOptions {
  /// Samples that all peers train on together; 0: each peer has a separate budget.
  std::uint64_t budget = 0;
  std::uint64_t batch = 1;     ///< Samples in one of our steps, before the batch grows.
  BatchGrowth growth;          ///< How the batch grows.
  std::uint64_t data = 0;      ///< Samples of our shard.
  std::uint64_t all_data = 0;  ///< Samples of all shards together; 0: not known.
  /// True if each peer has its own files, of any size. In that case `all_data` counts only our
  /// samples.
  bool has_own_files = false;
  double weigh_max = 4;  ///< The largest factor on our updates; 1: the factor is always 1.
  Duration wall{};  ///< The run ends at the latest when all peers have trained for this time; 0: no
                    ///< limit.
  TargetOptions target;  ///< The run ends early if most peers reach this target.
  /// Steps in a chunk; 0: data are not leased, and each peer has its own data.
  std::uint64_t chunk_steps = 0;
  SwarmNote resumed;      ///< The note in our checkpoint, or the one from the mode before a switch.
  std::uint64_t own = 0;  ///< Samples counted in `resumed` that this process has trained on.
};

/// How a peer begins, saves and ends, in every mode.
struct CourseOptions {
  std::uint64_t run_seed = 1;
  std::uint64_t steps = 0;  ///< The training budget in optimiser steps.
  SwarmWorkOptions work;    ///< The budget that all peers share, if there is one.
  /// Steps between two checkpoints; 0: only the last checkpoint is saved.
  std::uint64_t save_every_steps = 0;
  /// Number of peers to wait for before training, including ourselves.
  std::size_t wait_for_peers = 1;
  /// Training begins after this time even if there are fewer peers.
  Duration wait_max = std::chrono::seconds(20);
  /// A peer that was told whom to join does not begin alone before this time.
  Duration alone_after{};
  /// How long to serve other peers after the budget is used up.
  Duration linger = std::chrono::seconds(60);
  std::uint64_t layout_hash = 0;
  /// The fingerprint of the user's own first model. 0: the model comes from the seed, and is equal
  /// at all peers.
  std::uint64_t first_model = 0;
  std::size_t elements = 0;  ///< Number of parameters in the model.
  /// True if the course announces and reports our phases. False for a course within another one.
  bool tells = true;
  /// The first version of a peer whose model is the mean made for a switch of modes. Equal at all
  /// peers that have that mean. Empty: the version follows from the step and the checkpoint.
  std::optional<ModelVersion> version;
  /// True if peers that seem to have died before they were done may only be asleep. At the end this
  /// peer then waits for them, because otherwise they would continue alone.
  bool waits_for_dead = false;
};

/// Checkpoints since the start.
struct SaveCounts {
  std::uint64_t written = 0;
  std::uint64_t failed = 0;
};

/// The weight of the newest value in the running averages.
constexpr double recent_weight = 0.1;

/// Follows a peer from joining through training to the end, and counts the jobs that it has
/// requested. Every mode owns a course. Pure.
class Course {
 public:
  Course(PeerId self, const CourseOptions& options) : self_(self), options_(options) {}

  const CourseOptions& options() const { return options_; }
  std::uint64_t steps() const { return options_.steps; }
  /// Sets the step at which we expect the swarm's budget to be used up.
  void set_steps(std::uint64_t steps) { options_.steps = steps; }

  /// Call once, when the replica exists and is at `step`. If `joins_others` is set, training waits
  /// for the first contact with another peer, but no longer than `wait_max` or `alone_after`.
  void start(Time now, std::uint64_t step, bool joins_others);
  /// From now on, begins no new work with other peers. Without a replica, ends the course.
  void leave();
  /// While `held`, we take no part in the common end of all peers (Mode::hold_end).
  void hold_end(bool held) { holds_end_ = held; }
  bool holds_end() const { return holds_end_; }
  /// Call when the common end of all peers has begun: no further step begins.
  void begin_end() { has_end_begun_ = true; }
  /// True once the end has begun. While the last job is still under way, the phase does not show
  /// this yet.
  bool is_ending() const { return has_end_begun_ || has_ended(phase_); }
  /// Call when another mode is about to replace this one. Then no further step and no further work
  /// with other peers begins.
  void wind_down() { winds_down_ = true; }
  bool winds_down() const { return winds_down_; }
  /// True once, at the first call after wind_down(). The next job must then make the replica forget
  /// the state of this mode.
  bool takes_parting() { return winds_down_ && !std::exchange(has_parted_, true); }
  /// True once the replica has forgotten the state of this mode and no job is under way.
  bool has_parted() const { return has_parted_ && jobs_under_way_ == 0; }
  /// While `apart`, another peer may be done with a different model, so we linger even if all
  /// others are done.
  void set_apart(bool apart) { is_apart_ = apart; }
  /// Call when this peer cannot continue.
  void fail() { failed_ = true; }

  bool is_started() const { return started_; }
  bool is_leaving() const { return leaving_; }
  bool has_failed() const { return failed_; }
  /// True once the last job is done.
  bool is_finished() const { return finished_; }
  bool is_running() const { return started_ && !finished_; }
  /// True if it is time to leave, either because the budget is used up and no peer needs us any
  /// more, or because we cannot continue. `idle` means that no result is waiting for the next job.
  bool is_over(const Membership& members, bool idle) const;

  // ---- Phases ----

  Phase phase() const { return phase_; }
  /// Enters a phase. Announces it at once with the mode's progress, because other peers' decisions
  /// depend on it (which peers to ask, whether to linger).
  void enter(Time now, Phase phase, const Mode& mode, Membership& members, Effects& out);
  void become_training(Time now, std::size_t peers, const Mode& mode, Membership& members,
                       Effects& out);
  void become_done(Time now, const Mode& mode, Membership& members, Effects& out);

  /// True if `present` peers, including us, are enough to begin training, or if we have waited long
  /// enough.
  bool is_barrier_open(Time now, std::size_t present);
  Time barrier_deadline() const {
    const bool waits = joins_others_ && is_alone_;
    return waiting_since_ +
           (waits ? std::max(options_.wait_max, options_.alone_after) : options_.wait_max);
  }
  void end_lingering(Time now);
  Time linger_deadline() const;

  // ---- Jobs ----

  /// Numbers the job and appends it to `jobs`.
  void post(Job job, std::vector<Job>& jobs);
  /// Makes the next requested job the last one of this peer.
  void make_next_job_last() { last_job_ = true; }
  /// Call when the oldest job under way is done.
  void job_done(const JobDone& done);
  /// Number of jobs that are requested but not done: at most one, or two in a pipeline.
  std::size_t jobs_under_way() const { return jobs_under_way_; }
  bool is_last_job_asked() const { return last_job_; }
  /// The replica's step after the newest finished job. If a job was under way when the mode
  /// stopped, the replica may be ahead of the mode.
  std::uint64_t replica_step() const { return replica_step_; }
  /// The number that the next requested job will get.
  std::uint64_t next_job_number() const { return job_number_ + 1; }

  bool is_save_due(std::uint64_t step) const;
  std::uint64_t saved_step() const { return saved_step_; }
  /// Call when a model of this `step` has replaced ours. Checkpoints of later steps then no longer
  /// count, so those steps are saved again.
  void go_back_to(std::uint64_t step);
  const SaveCounts& saves() const { return saves_; }

  // ---- Running averages ----

  void learn_from(const Score& score);
  /// Exponential running averages of the training loss and accuracy over the last jobs.
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
  bool is_alone_ = true;  ///< True if no other peer was present when we last looked.
  bool leaving_ = false;
  bool finished_ = false;
  bool failed_ = false;
  bool holds_end_ = false;
  bool has_end_begun_ = false;
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
