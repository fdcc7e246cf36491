// What a node asks of the owner of its replica, and the results.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/floats.hpp"
#include "base/time.hpp"
#include "consensus/compression/gradient_compressor.hpp"
#include "consensus/message/effects.hpp"
#include "consensus/message/snapshot.hpp"
#include "peer/node/mix_job.hpp"
#include "peer/node/stage_job.hpp"
#include "train/learner/hyperparameters.hpp"
#include "train/learner/score.hpp"

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

}  // namespace gv
