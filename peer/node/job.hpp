// The work that a node requests from the owner of its replica: jobs made of tasks, and their
// results.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/floats.hpp"
#include "base/ids.hpp"
#include "base/one_of.hpp"
#include "base/range.hpp"
#include "base/time.hpp"
#include "consensus/compression/gradient_compressor.hpp"
#include "consensus/ledger/ledger_note.hpp"
#include "consensus/message/message.hpp"
#include "consensus/message/snapshot.hpp"
#include "consensus/mixing/mix_message.hpp"
#include "consensus/pipeline/schedule.hpp"
#include "train/learner/hyperparameters.hpp"
#include "train/learner/score.hpp"

namespace gv {

struct GroupPlace;
struct MixRule;

/// A replica's place among the peers of a generation.
struct MixPlace {
  std::size_t rank = 0;
  std::vector<PeerId> order;            ///< Peers by rank.
  std::uint64_t key = 0;                ///< Key of the generation.
  std::uint64_t step = 0;               ///< Step at which all peers in the generation begin.
  std::vector<std::size_t> hosts = {};  ///< The host of each rank, as in RoundPlan.
};

/// Receives the messages of a round. The worker fills the outbox before it reports the messages as
/// ready.
struct MixOutbox {
  std::vector<MixMessage> messages;
  bool sound = true;  ///< True if all values are finite. Otherwise there are no messages.
};

using StageValues = std::shared_ptr<Floats>;

/// The state of a part of a stage.
struct StageCopy {
  std::uint32_t part = 0;
  StageValues values;
};

/// How a pipeline run ends for one stage.
struct StageEnd {
  std::uint32_t stage = 0;
  StageValues sum;  ///< Gradient of one optimiser step. Null if all steps have already been made.
  /// The gradient of our slices, if we carry slices of the stage. As in `sum`, other numbers may
  /// follow the gradient.
  StageValues slices;
  std::size_t micro_batches = 0;  ///< Micro-batches in `sum`.
  StageValues mean;               ///< Mean of the replicas' parameters; null if there is none.
  StageValues snapshot;           ///< Our parameters when the mean was computed. The update is x +=
                                  ///< force * (mean - snapshot).
  float force = 1;
  std::optional<std::uint64_t> round;  ///< Round to mix; empty if there is none.
  std::vector<MixMessage> arrived;     ///< Messages to mix.
};

/// How a run ended with a common mean: the run's limits, and facts about the mean.
struct RunEnd {
  std::uint64_t budget = 0;        ///< Samples of all peers after which the run was to end.
  Duration wall{};                 ///< Training time after which the run was to end; 0: no limit.
  double target = 0;               ///< Accuracy or R2 at which the run was to end; 0: no target.
  bool is_used_up = false;         ///< True if this peer knew that the budget was used up.
  bool is_time_over = false;       ///< True if this peer knew that the time was over.
  bool is_target_reached = false;  ///< True if this peer knew that the target was reached.
  std::uint64_t models = 0;        ///< The number of models in the mean.
  std::uint64_t lineage = 0;       ///< The lineage of the mean's version.

  friend bool operator==(const RunEnd&, const RunEnd&) = default;
};

/// A checkpoint's note about the work of the whole swarm.
struct SwarmNote {
  std::uint64_t samples = 0;         ///< Samples that all peers have trained on; 0: not known.
  Duration ran{};                    ///< How long the swarm has trained.
  std::optional<LedgerNote> ledger;  ///< The note of the peer's ledger, if data are leased.
  std::uint64_t chunk_samples = 0;   ///< The size of the chunks in `ledger`.
  std::uint64_t budget = 0;          ///< Samples in the budget that `ledger` divides into chunks.
  /// Set if a run has ended with this model and nothing has changed the model since. Outside
  /// lockstep, such a model is the mean of the peers' models.
  std::optional<RunEnd> end = {};
};

namespace task {

// ---- For a whole model ----

/// Take over a downloaded model, and in a population the rest of the state that came with it.
struct AdoptModel {
  DownloadedModel model;
};

/// Become a copy of another replica.
struct LoadState {
  /// Parameters, then optimiser state, then outer-step state.
  std::shared_ptr<const Floats> values;
  std::uint64_t step = 0;
  /// Keep our own optimiser state, unless our optimiser has made no step yet.
  bool own_optimizer = false;
  bool model_only = false;  ///< The values are parameters only; keep the rest of our state.
  /// Limit on the norm of the loaded parameters; 0: no limit. A replica that has made steps refuses
  /// parameters whose norm is above this many times the larger of its own norm and 1. Whatever the
  /// limit, any replica refuses an optimiser state that no optimiser can have made. After a
  /// refusal, the job skips this task and all later ones.
  double norm_cap = 0;
  /// If set, the run ends with this model. The replica's checkpoints have this note from then on.
  std::shared_ptr<const SwarmNote> end_note = {};
};

/// Make one step with a gradient or sum.
struct ApplyUpdate {
  std::shared_ptr<const Floats> values;
  CompressionPlan plan;           ///< The encoding of `values`.
  std::size_t samples = 0;        ///< Samples of all peers in the update; 0: unknown.
  std::uint64_t local_steps = 0;  ///< If not 0, this is the outer step after this many local steps.
  /// If set, the values are the mean of the peers' models, which becomes our model at this step.
  std::optional<std::uint64_t> becomes_model_at;
  /// See LoadState::end_note.
  std::shared_ptr<const SwarmNote> end_note = {};
};

/// Compute the fingerprint of the parameters.
struct TakeFingerprint {};

/// Copy the whole state to `values`, in the order of LoadState. If only the parameters fit, copy
/// only these.
struct ExportState {
  std::shared_ptr<Floats> values;
};

/// Add the forces of exchanges to the parameters.
struct AddForces {
  std::vector<Force> forces;
};

/// Note the swarm's progress, and the factors for our own updates and batches. If `note.end` is
/// set, the run ends with the model as it is now. Otherwise a replica of a whole model keeps the
/// end that it has noted, because only the replica knows whether its model has changed since.
struct FollowSwarm {
  double progress = 0;
  double factor = 1;
  SwarmNote note;
  std::uint64_t batch_growth = 1;  ///< Growth factor of the batch in the job's steps.
};

/// Take optimiser steps. If the replica mixes, these are the steps of the round that it has begun.
struct TakeSteps {
  std::uint64_t count = 0;
  /// If data are leased: the first sample, counted in the order that all peers share.
  std::optional<std::uint64_t> from;
  bool rests = false;  ///< True to count the steps without making them, as in a resting centre.
};

/// Compute our contribution to a collective: a gradient or, with local steps, the old model minus
/// the new one.
struct ComputeGradient {
  std::size_t samples = 0;            ///< Samples in the mean; with local steps, samples of each
                                      ///< step.
  std::optional<std::uint64_t> from;  ///< See TakeSteps::from.
  std::uint64_t local_steps = 0;      ///< Number of local steps; 0: compute a gradient.
  bool of_model = false;              ///< True to contribute the parameters themselves, without
                                      ///< computing.
  bool measures_square = false;  ///< Also measure the length of the gradient, and later the length
                                 ///< of the mean gradient.
  /// Selects the compressor. The replica uses its own instance of it. If null, the values are not
  /// compressed.
  std::shared_ptr<const GradientCompressor> compressor;
  CompressionPlan plan;  ///< The encoding of the values.
  /// Memory for the result: at least as long as the layout, or as the encoded values.
  std::shared_ptr<Floats> values;
  /// If arrays are averaged: the number of floats that follow the array in `values`. They are the
  /// array's weight, and numbers that the replica does not change.
  std::size_t behind_array = 0;
  /// Elements of a gradient, in descending order. For each, the replica reports when the gradient
  /// is final from that element on.
  std::vector<std::size_t> marks;

  std::size_t all_samples() const { return samples * std::max<std::size_t>(1, local_steps); }
};

/// In a population: compute the loss on held-out samples.
struct Validate {};

/// Measure the model on the test data or, in a pipeline, on the samples that have passed through
/// the last stage.
struct Measure {};

/// Copy the parameters.
struct TakeSnapshot {
  std::shared_ptr<Snapshot> snapshot;
  bool with_rest = false;  ///< Also fill Snapshot::rest, for downloads of the whole replica.
};

/// Another mode follows. Drop the state that the previous mode kept beside the model and its
/// optimiser.
struct PartFromMode {};

// ---- For a model that mixes with neighbours ----

/// End the generation in which the replica mixes.
struct LeaveGeneration {
  std::vector<MixMessage> left_over;  ///< Messages of the generation that will not be mixed.
  bool unsent = false;  ///< True if our last messages in the generation reached no peer.
};

/// Mix in a new generation from now on.
struct EnterGeneration {
  MixPlace place;
  /// Switch to this rule, and drop the state of the previous rule; null: no switch.
  std::shared_ptr<const MixRule> rule;
  std::uint64_t run_seed = 0;  ///< Seed of the rule's draws.
};

/// End a round: mix the messages that arrived.
struct MixRound {
  std::uint64_t round = 0;
  std::vector<MixMessage> arrived;
};

/// Begin a round. TakeSteps and SendRound follow, in the order of the rule.
struct BeginRound {
  std::uint64_t round = 0;
};

/// Make the messages of a round.
struct SendRound {
  std::uint64_t round = 0;
  std::shared_ptr<MixOutbox> outbox;
};

// ---- For the stages that a peer of a pipeline carries ----

/// Give up the pipeline run under way.
struct AbandonRun {};

/// End the pipeline run under way.
struct EndRun {
  std::vector<StageEnd> ends;  ///< One end for each stage.
  std::size_t drawn = 0;       ///< Number of our own batches that the run took.
};

/// Copy the states of stages for peers that take these stages over.
struct ExportStages {
  std::vector<StageCopy> copies;
};

/// Continue at another step.
struct MoveTo {
  std::uint64_t step = 0;
};

/// The slices of a stage that a peer carries from now on.
struct HeldSlices {
  std::uint32_t stage = 0;
  Range slices;
};

/// Continue with these slices of stages, and with these states of parts from other carriers. Null
/// values stand for the state before the first step.
struct LoadStages {
  std::vector<HeldSlices> held;
  std::vector<StageCopy> states;
};

/// Stop carrying these stages.
struct ReleaseStages {
  std::vector<std::uint32_t> stages;
};

/// Copy the states of stages for the neighbours that keep copies.
struct CopyStages {
  std::vector<StageCopy> copies;
};

/// Carry out one instruction of a schedule. A pass that a group makes together has several parts,
/// with a sum over the group between consecutive parts.
struct StagePass {
  PipelineInstruction what;
  std::size_t part = 0;                     ///< In a group: the index of the part within the pass.
  std::shared_ptr<const GroupPlace> group;  ///< Our place in the group; null: we are alone.
  /// For the first stage's forward pass: the index of the batch, among our own batches in the run
  /// or among those of a test.
  std::size_t draw = 0;
  StageValues in;   ///< Input from the neighbour, or the sum; null if there is none.
  StageValues out;  ///< Memory for the result; null if no peer is waiting for one.
  /// The pass adds its gradients here, and adds 1 to its count behind them (the contribution
  /// checksum). An update takes the gradients and leaves zeros, but keeps the counts. Null before
  /// the last part of a pass.
  StageValues sum;
  /// Like `sum`, for the gradients of our slices. Behind these gradients, the pass has one count
  /// for each slice, and adds 1 to each.
  StageValues slices;
  std::size_t counted_at = 0;     ///< Index of the pass's count behind the gradients in `sum`.
  std::size_t micro_batches = 0;  ///< For an update: micro-batches in the sum.
};

/// Copy a stage's parameters, and the counts behind its sum, to `out` for averaging.
struct CopyParameters {
  std::uint32_t stage = 0;
  StageValues sum;
  StageValues out;
};

/// Make a round's messages about a stage for the stage's other replicas.
struct SendStage {
  std::uint32_t stage = 0;
  std::optional<MixPlace> place;  ///< Set when a generation begins: this replica's place among the
                                  ///< stage's replicas. `place->step` is unused.
  std::uint64_t round = 0;
  std::shared_ptr<MixOutbox> outbox;
};

// ---- For all replicas ----

/// Write a checkpoint. This is the last task of a job; the replica's owner does it, not the
/// replica.
struct Save {
  bool is_common_end = false;  ///< True if the model is the common mean of a swarm, which is also
                               ///< written to a separate file.
};

}  // namespace task

namespace result {

/// Result of TakeFingerprint.
struct Fingerprint {
  std::uint64_t value = 0;
};

/// Result of a refused LoadState. The job skips that task and all later ones.
struct StateRefused {
  Reason why = Reason::none;
  double norm = 0;  ///< Norm of the refused parameters.
};

/// Reports that a change to which other peers contributed would have made parameters absurdly large
/// (Learner::held). Only the first of several such changes in a row is reported. In a pipeline, all
/// updates of a run are one change.
struct ModelHeld {};

/// Result of ComputeGradient.
struct Gradient {
  std::size_t samples = 0;
  bool is_sound = true;   ///< True if all values are finite, even in encoded form.
  std::size_t array = 0;  ///< Number of floats in the array to average; 0: none.
};

/// Result of an ApplyUpdate that follows a ComputeGradient with `measures_square`: the squared
/// lengths of our own gradient and of the mean, and the number of samples in each.
struct GradientSquares {
  double own = 0;
  double mean = 0;
  std::size_t own_samples = 0;
  std::size_t samples = 0;
};

/// Result of Validate.
struct Validation {
  double loss = 0;
  Hyperparameters hyperparameters;  ///< The replica's present hyper-parameters.
};

/// Result of Measure.
struct Measured {
  double value = 0;  ///< Accuracy, or R2 for data with targets.
};

/// Result of MixRound.
struct Mixing {
  std::size_t refused = 0;             ///< Number of unusable messages.
  std::vector<std::size_t> held_back;  ///< Ranks whose messages the guard clipped or left out.
};

/// Result of StagePass, CopyParameters and SendStage.
struct StagePart {
  bool is_sound = true;  ///< True if all values that may travel are finite.
};

/// Result of Save.
struct Saved {
  std::string problem;  ///< Why the checkpoint could not be written; empty on success.
};

}  // namespace result

using TaskVariant = std::variant<
    task::AdoptModel, task::LoadState, task::ApplyUpdate, task::TakeFingerprint, task::ExportState,
    task::AddForces, task::FollowSwarm, task::TakeSteps, task::ComputeGradient, task::Validate,
    task::Measure, task::TakeSnapshot, task::PartFromMode, task::LeaveGeneration,
    task::EnterGeneration, task::MixRound, task::BeginRound, task::SendRound, task::AbandonRun,
    task::EndRun, task::ExportStages, task::MoveTo, task::LoadStages, task::ReleaseStages,
    task::CopyStages, task::StagePass, task::CopyParameters, task::SendStage, task::Save>;

/// Any task. The code that copies, moves and destroys it is compiled only in job.cpp, as for
/// Message.
struct AnyTask : TaskVariant {
  template <class T>
  requires(IsOneOf<T, TaskVariant>) AnyTask(T task)
      : AnyTask(OneOf<T, TaskVariant>::index(), &task) {}

  AnyTask(const AnyTask& other);
  AnyTask(AnyTask&& other) noexcept;
  AnyTask& operator=(const AnyTask& other);
  AnyTask& operator=(AnyTask&& other) noexcept;
  ~AnyTask();

 private:
  AnyTask(std::size_t index, void* task);
};

/// Work for the owner of the replica.
struct Job {
  using Task = AnyTask;

  std::uint64_t number = 0;
  /// The version of our model once the job is done, in modes that agree on versions.
  ModelVersion version;
  std::vector<Task> tasks;  ///< The tasks, done in this order.

  void add(Task task);
  /// True if the job ends with a checkpoint.
  bool saves() const;
};

/// A finished job.
struct JobDone {
  using Result = std::variant<result::Fingerprint, result::StateRefused, result::ModelHeld,
                              result::Gradient, result::GradientSquares, result::Validation,
                              result::Measured, result::Mixing, result::StagePart, result::Saved>;

  /// The finished job, with its buffers filled. Goes back to the thread that requested the job.
  Job job;
  std::uint64_t step = 0;       ///< Total number of local steps taken.
  std::uint64_t steps_run = 0;  ///< Steps made by this job.
  Score score;                  ///< Training loss and hits over the job's steps.
  double learning_rate = 0;     ///< Learning rate of the next step.
  std::vector<Result> results;  ///< Results of the tasks that have one, in order.
  Duration busy{};              ///< Duration of the job, measured by the thread that ran it.
};

/// The first of a job's tasks or results that is a `T`; null if there is none.
template <class T, class Alternatives>
auto first_of(Alternatives& all) -> decltype(std::get_if<T>(&all.front())) {
  for (auto& one : all) {
    if (auto* found = std::get_if<T>(&one)) return found;
  }
  return nullptr;
}

/// The growth factor of the batch in the job's steps.
std::uint64_t batch_growth(const Job& job);

}  // namespace gv
