// Options of mode `pipeline`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <optional>
#include <string>
#include <vector>

#include "consensus/generation/agreement.hpp"
#include "consensus/message/effects.hpp"
#include "consensus/mixing/mix_rule.hpp"
#include "consensus/pipeline/router.hpp"
#include "consensus/pipeline/schedule.hpp"
#include "consensus/pipeline/stage_plan.hpp"
#include "peer/modes/stage_choices.hpp"
#include "peer/node/job.hpp"
#include "train/learner/group_place.hpp"

namespace gv {

/// The most bytes of early blocks that a peer keeps. More means that a peer misbehaves.
inline constexpr std::size_t pipeline_held_max = std::size_t{256} << 20;

/// Largest number of micro-batches in a test. Further test samples are left out.
inline constexpr std::size_t test_micro_batches_max = std::size_t{1} << 16;

/// Sizes of a part of a stage, in floats.
struct PartSize {
  std::size_t parameters = 0;
  std::size_t state = 0;  ///< Floats of parameters and optimiser state.
};

/// Sizes of one stage, in floats.
struct StageSize {
  /// Sizes of the part that all carriers have: everything that is not in slices.
  std::size_t parameters = 0;
  std::size_t state = 0;
  /// Activations of one micro-batch from the previous stage; 0 for the first stage.
  std::size_t forward = 0;
  std::size_t backward = 0;  ///< Their gradients, which go back.
  /// What members of a group sum after each part but the last of a pass. There are forward sums if
  /// there are slices. Tests make only sums_in_tests().
  std::vector<GroupSum> forward_sums = {};
  std::vector<GroupSum> backward_sums = {};

  /// Sizes of the slices that the members of a group divide among themselves; empty if no group
  /// carries the stage.
  std::vector<PartSize> slices = {};
};

/// The state of a part of a stage at one model version.
struct StageState {
  std::uint32_t part = 0;
  ModelVersion version;
  StageValues values;
};

/// The rule reduced to options that keep no state between rounds; all others get their defaults. A
/// run that is given up could not restore such state.
MixRule in_runs(const MixRule& rule);

struct PipelineOptions {
  PipelineKind kind = PipelineKind::one_f_one_b;
  RouterKind router = RouterKind::fixed;
  StageConsensus consensus = StageConsensus::allreduce;
  std::size_t micro_batches = 8;  ///< Micro-batches of all chains together in a run.
  std::size_t micro_batch = 1;    ///< Samples of a micro-batch.
  std::size_t test_samples = 0;   ///< Samples of a test, if the run has a target accuracy; 0: no
                                  ///< tests.
  std::size_t accumulate = 0;     ///< 2bw: micro-batches of one replica between two updates.
  StagePlanKind plan = StagePlanKind::steady;
  std::map<std::string, std::uint32_t> pins = {};  ///< Stages of peers that carry them by name.
  /// The most peers that carry a stage together. Above 1, the schedule must be synchronous and
  /// `consensus` an all-reduce.
  std::size_t group = 1;
  /// The most slices of a stage that fit into a peer's memory; 0: all.
  std::size_t slices_most = 0;
  std::size_t ahead = 1;   ///< Transfers that take up to the time of this many passes are hidden.
  double mix_alpha = 0.5;  ///< gossip: the elastic coefficient of a pair.
  MixRule rule;            ///< mixing: a rule returned by in_runs().
  std::uint64_t mix_every = 1;   ///< gossip, mixing: runs between two averagings.
  std::uint64_t copy_every = 8;  ///< Runs between two copies that neighbours keep; 0 = never.
  /// A resumed peer has the parts `resumed_parts` at version `resumed`.
  std::optional<ModelVersion> resumed;
  std::vector<std::uint32_t> resumed_parts;
  std::vector<StageState> resumed_copies;  ///< Older copies that a resumed peer has.
  std::vector<StageSize> stages;
  /// Seconds of a micro-batch in each stage; only their ratios matter.
  std::vector<double> stage_seconds;
  std::size_t bucket_elements = 1 << 20;
  std::size_t segment_elements = block_bytes_usual / sizeof(float);
  Agreement::Options agreement;
  /// Memory of all data that are sent. Not owned; must outlive the mode and its messages.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();

  StageParts parts() const;
  std::vector<PartSize> part_sizes() const;
  /// How peers form groups and divide stages among themselves.
  StagePlanOptions planning() const;
};

}  // namespace gv
