// Work for the owner of the stages that a peer of a pipeline carries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/floats.hpp"
#include "consensus/message/message.hpp"
#include "consensus/pipeline/schedule.hpp"
#include "peer/node/mix_job.hpp"

namespace gv {

using StageValues = std::shared_ptr<Floats>;

/// Messages about a stage to its other replicas, made from its current parameters.
struct StageMixing {
  std::optional<MixPlace> place;  ///< Set once: the replica's place among them; `step` is unused.
  std::uint64_t round = 0;
  std::shared_ptr<MixOutbox> outbox;  ///< Where the messages go.
};

/// One instruction of a schedule, or work on a stage's parameters for its other replicas.
struct StageOrder {
  PipelineInstruction what;
  std::size_t draw = 0;  ///< First stage's forward pass: which of our own batches of the run.
  StageValues in;        ///< Input from the neighbour; null where there is none.
  StageValues out;       ///< Where the result goes; null where no peer waits for one.
  /// Gradients are added here, and the micro-batch's count behind them (the contribution checksum).
  /// An update takes the gradients and leaves zeros, but keeps the counts.
  StageValues sum;
  std::size_t micro_batches = 0;      ///< Update: micro-batches in the sum.
  bool copies_parameters = false;     ///< Only copy the parameters to `out`.
  std::optional<StageMixing> mixing;  ///< Only write mixing messages.

  bool is_pass() const { return !copies_parameters && !mixing; }
};

/// Runs in place of a pass, in measurements whose stages cost only time.
using PassStandIn = std::function<void(const PipelineInstruction&)>;

/// The end of a run for one stage.
struct StageEnd {
  std::uint32_t stage = 0;
  StageValues sum;                ///< Gradient of one optimiser step; null: all are made.
  std::size_t micro_batches = 0;  ///< Micro-batches in `sum`.
  StageValues mean;               ///< Mean of the replicas' parameters; null: none.
  StageValues snapshot;  ///< Our own parameters in the mean: x += force * (mean - snapshot).
  float force = 1;
  std::optional<std::uint64_t> round;  ///< Round to mix; empty: none.
  std::vector<MixMessage> arrived;     ///< Messages to mix.
};

/// A new state for a stage: another replica's, or (null) the one before the first step.
struct StageLoad {
  std::uint32_t stage = 0;
  std::shared_ptr<const Floats> values;
};

/// A state to copy.
struct StageCopy {
  std::uint32_t stage = 0;
  StageValues values;
};

/// Done in the order of the fields.
struct StageJob {
  bool abandons = false;       ///< Give up the run under way.
  std::vector<StageEnd> ends;  ///< The run is over: one end for each stage.
  std::size_t drawn = 0;       ///< Batches of our own that the run took.
  /// Copies of stages before the following fields change them.
  std::vector<StageCopy> export_states;
  std::optional<std::uint64_t> moves_to;  ///< Move to this step.
  std::vector<StageLoad> load_states;
  std::vector<std::uint32_t> release;  ///< Stages to give up.
  std::vector<StageCopy> copies;
  ModelVersion version;  ///< Our version after all that.
  std::optional<StageOrder> order;

  bool is_empty() const {
    return !abandons && ends.empty() && !moves_to && load_states.empty() && release.empty() &&
           export_states.empty() && copies.empty() && !order;
  }
};

}  // namespace gv
