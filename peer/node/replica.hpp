// One copy of the model and the jobs that change it: the only code that touches live parameters.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/floats.hpp"
#include "consensus/compression/gradient_compressor.hpp"
#include "consensus/compression/outer_step.hpp"
#include "consensus/message/effects.hpp"
#include "consensus/message/snapshot.hpp"
#include "peer/node/mix_job.hpp"
#include "peer/node/stage_job.hpp"
#include "train/learner/learner.hpp"

namespace gv {

/// The whole state of another replica: parameters, then optimiser state, then outer-step state.
struct ReplicaState {
  std::shared_ptr<const Floats> values;
  std::uint64_t step = 0;
  /// Keep our own optimiser state, unless it has not made a step yet.
  bool own_optimizer = false;
};

/// What we bring to a collective: a gradient, or what local steps take from the model.
struct GradientOrder {
  std::size_t samples = 0;        ///< Samples of the mean; with local steps, of each step.
  std::uint64_t local_steps = 0;  ///< 0: compute a gradient.
  /// How it is compressed: the replica takes an instance of its own. Null: it travels whole.
  std::shared_ptr<const GradientCompressor> compressor;
  CompressionPlan plan;  ///< What travels.
  /// Where it goes: a vector of the layout's size, of the size of what travels, or longer.
  std::shared_ptr<Floats> values;
  /// Falling elements of a gradient; tell when it is final from each of these on.
  std::vector<std::size_t> marks;

  std::size_t all_samples() const { return samples * std::max<std::size_t>(1, local_steps); }
};

/// Work for the owner of the replica, done in the order of the fields.
struct Job {
  std::uint64_t number = 0;
  std::optional<DownloadedModel> adopt;    ///< Replace the model first (a newcomer's download).
  std::optional<ReplicaState> load_state;  ///< Become a copy of another replica.
  std::shared_ptr<const Floats> update;    ///< Make one step with this gradient or sum; null: none.
  CompressionPlan update_plan;             ///< By which `update` is decoded.
  std::size_t update_samples = 0;          ///< Samples of all peers in `update`; 0: unknown.
  /// If not 0, `update` is an outer step that ends this many local steps.
  std::uint64_t update_steps = 0;
  bool fingerprint = false;       ///< Compute the fingerprint of the parameters.
  std::shared_ptr<Floats> state;  ///< Copy the whole state here.
  std::vector<Force> forces;      ///< Forces to add.
  std::uint64_t steps = 0;        ///< Take this many optimiser steps.
  std::optional<GradientOrder> gradient;
  std::optional<MixJob> mix;  ///< Round of mixing that the steps belong to.
  /// Work of a pipeline; all other fields but `save` are then empty.
  std::optional<StageJob> stages;
  std::shared_ptr<Snapshot> snapshot;  ///< Copy the parameters here at the end, if not null.
  bool snapshot_rest = false;          ///< Append what else a whole download contains.
  bool validate = false;               ///< Compute the loss on held-out samples, after the steps.
  bool save = false;                   ///< Write a checkpoint at the end.
};

/// The result of a job.
struct JobDone {
  std::uint64_t number = 0;
  std::uint64_t step = 0;                          ///< Local steps taken in all.
  std::uint64_t steps_run = 0;                     ///< Steps made by this job.
  Score score;                                     ///< Training loss and hits over those steps.
  double learning_rate = 0;                        ///< Learning rate of the next step.
  std::shared_ptr<Snapshot> snapshot;              ///< The one asked for, filled.
  std::optional<double> validation_loss;           ///< Set if asked for.
  std::optional<Hyperparameters> hyperparameters;  ///< In a population: values from here on.
  std::optional<std::uint64_t> fingerprint;        ///< Set if asked for.
  std::vector<Force> spent;  ///< The forces that were added, returned to the thread that lent them.
  std::shared_ptr<Floats> state;  ///< The one asked for, filled.
  /// Samples of the gradient computed for a collective; 0: none.
  std::size_t gradient_samples = 0;
  bool gradient_writable = true;   ///< That gradient is finite, and in its codec too.
  std::optional<MixJob> mix;       ///< The job's `mix`, with its results.
  std::optional<StageJob> stages;  ///< The job's `stages`, with their results.
  Duration busy{};                 ///< Duration of the job, measured by the thread that ran it.
  bool saved = false;              ///< A checkpoint was asked for and written.
  std::string save_problem;        ///< Why it could not be written; empty if it was.
};

/// Makes a job's steps or its gradient (which counts as one step) by calling `make` once. It may
/// take longer than they need.
using StepPace = std::function<void(std::uint64_t steps, const std::function<void()>& make)>;

/// A learner, and what consensus keeps beside it: the conservation checksum that follows its
/// parameters through every exchange, the outer step, a mixing rule's memory, a gradient
/// compressor.
class Replica {
 public:
  /// `peer` seeds the conservation checksum, so that every replica starts with different integers.
  /// The hyper-parameters of a learner that can be tuned are part of the state.
  Replica(std::unique_ptr<Learner> learner, std::uint64_t peer, const LocalSteps& local = {});

  /// From here on it mixes with neighbours by that rule, in the run of that seed.
  void mix_by(const MixRule& rule, std::uint64_t run_seed);

  /// For measurements with peers slower than their machine. Empty: full speed.
  void set_pace(StepPace pace) { pace_ = std::move(pace); }

  /// Called while a job runs: the gradient is final and writable from element `begin` on. With 0 it
  /// may also mean that the messages of its round are in the outbox.
  using Ready = std::function<void(std::size_t begin)>;

  /// Runs the whole job but the save. Sizes of forces and models must match the layout.
  JobDone run(Job job, const Ready& ready = {});

  const Learner& learner() const { return *learner_; }
  Learner& learner() { return *learner_; }

  /// Floats of a whole state, as ReplicaState has them.
  std::size_t state_size() const;
  /// What a checkpoint holds beside the parameters, and its inverse, which returns why the state
  /// does not fit, having changed nothing, or an empty string.
  OptimizerState optimizer_state() const;
  std::string restore(std::span<const float> parameters, OptimizerState state);

  const ConservationChecksum& checksum() const { return checksum_; }
  void set_checksum(const ConservationChecksum& checksum) { checksum_ = checksum; }

  /// The conservation checksum as text for a checkpoint, and its inverse, which ignores text of
  /// another form.
  std::string checksum_text() const;
  void restore_checksum(const std::string& text);

 private:
  Score compute(const GradientOrder& order, const Ready& ready, bool& writable);
  void compress_by(const std::shared_ptr<const GradientCompressor>& compressor);
  void at_pace(std::uint64_t steps, const std::function<void()>& make) const;
  void update(const Job& job);
  void load_state(const ReplicaState& state);
  void adopt(const DownloadedModel& fetched);
  void add(const Force& force);
  void fill(Snapshot& snapshot, bool with_rest) const;

  std::unique_ptr<Learner> learner_;
  OuterStep outer_;
  std::optional<MixRunner> mixing_;
  StepPace pace_;
  ConservationChecksum checksum_;
  std::shared_ptr<const GradientCompressor> asked_for_;  ///< Of the newest order that had one.
  std::unique_ptr<GradientCompressor> compressor_;       ///< Our own instance of that.
  GradientCompressor::Named restored_;  ///< A checkpoint's vectors, until it is known.
};

/// The conservation checksum with which a replica of this number starts. The sum over all peers
/// must return to its first value.
ConservationChecksum initial_checksum(std::uint64_t peer);

}  // namespace gv
