// Work for whoever owns the stages that a peer of a pipeline carries.
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

/// What replicas of a stage are sent of it, made of its parameters as they are.
struct StageMixing {
  std::optional<MixPlace> place;  ///< The replica's among them from here on; `step` is of no use.
  std::uint64_t round = 0;
  std::shared_ptr<MixOutbox> outbox;  ///< Filled.
};

/// One operation of a schedule, or what is made of a stage's parameters for its other replicas.
struct StageOrder {
  PipelineInstruction what;
  std::size_t draw =
      0;            ///< Of the first stage's forward pass: which of our own batches of the run.
  StageValues in;   ///< What came from the neighbour; null where there is none.
  StageValues out;  ///< Where its result goes; null where nobody waits for one.
  /// Gradients are added here, and the micro-batch's lane behind them; an update takes the
  /// gradients and leaves zeros, but keeps the lanes.
  StageValues sum;
  std::size_t micro_batches = 0;      ///< Of an update: so many are in the sum.
  bool copies_parameters = false;     ///< To `out`, instead of all that.
  std::optional<StageMixing> mixing;  ///< And this instead of all that.

  bool is_pass() const { return !copies_parameters && !mixing; }
};

/// Done in the place of a pass, by measurements whose stages cost time and nothing else.
using PassStandIn = std::function<void(const PipelineInstruction&)>;

/// The end of a run for one stage.
struct StageEnd {
  std::uint32_t stage = 0;
  StageValues sum;                ///< One optimiser step with this; null: all are made.
  std::size_t micro_batches = 0;  ///< It is the sum of so many.
  StageValues mean;               ///< Of replicas' parameters; null: none.
  StageValues snapshot;           ///< Our own in it: x += force * (mean - snapshot).
  float force = 1;
  std::optional<std::uint64_t> round;  ///< Then it mixes in this round
  std::vector<MixParcel> arrived;      ///< with these.
};

/// What a stage becomes: another replica's state, or (null) what it is before the first step.
struct StageLoad {
  std::uint32_t stage = 0;
  std::shared_ptr<const Floats> values;
};

/// A state to be copied.
struct StageCopy {
  std::uint32_t stage = 0;
  StageValues values;
};

/// Done in the order of the fields.
struct StageJob {
  bool abandons = false;                  ///< The run under way is given up.
  std::vector<StageEnd> ends;             ///< The run is over: one for each stage,
  std::size_t drawn = 0;                  ///< with so many batches of our own.
  std::vector<StageCopy> export_states;   ///< Of stages as they are before what follows.
  std::optional<std::uint64_t> moves_to;  ///< We stand at this step now, with these stages
  std::vector<StageLoad> load_states;
  std::vector<std::uint32_t> release;  ///< and without these.
  std::vector<StageCopy> copies;
  ModelVersion version;  ///< Ours then.
  std::optional<StageOrder> order;

  bool is_empty() const {
    return !abandons && ends.empty() && !moves_to && load_states.empty() && release.empty() &&
           export_states.empty() && copies.empty() && !order;
  }
};

}  // namespace gv
