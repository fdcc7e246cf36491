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

/// Bytes of early blocks that are kept for each sender beyond those that an honest peer sends in a
/// run (PipelineOptions::sent_bytes_max). The extra room is for bookkeeping and repeated blocks.
/// Only a misbehaving peer needs more.
inline constexpr std::size_t pipeline_held_max = std::size_t{256} << 20;

/// The largest number of micro-batches in a test. Test samples beyond it are left out.
inline constexpr std::size_t test_micro_batches_max = std::size_t{1} << 16;

/// The sizes of one part of a stage, in floats.
struct PartSize {
  std::size_t parameters = 0;
  std::size_t state = 0;  ///< Parameters and optimiser state together.
};

/// The sizes of one stage, in floats.
struct StageSize {
  /// The parameters outside slices, which every carrier has.
  std::size_t parameters = 0;
  std::size_t state = 0;
  /// The activations of one micro-batch that come from the previous stage; 0 for the first stage.
  std::size_t forward = 0;
  std::size_t backward = 0;  ///< The gradients of the activations in `forward`, which go back.
  /// The sums that the members of a group make, one after each part of a pass except the last. Only
  /// a stage with slices has forward sums. A test makes only sums_in_tests().
  std::vector<GroupSum> forward_sums = {};
  std::vector<GroupSum> backward_sums = {};

  /// The slices that the members of a group divide among themselves; empty if no group carries the
  /// stage.
  std::vector<PartSize> slices = {};
};

/// The state of one part of a stage at one version of the model.
struct StageState {
  std::uint32_t part = 0;
  ModelVersion version;
  StageValues values;
};

/// Returns the rule without any option that keeps state between rounds, because a run that is given
/// up could not restore such state. Those options get their defaults.
MixRule in_runs(const MixRule& rule);

struct PipelineOptions {
  PipelineKind kind = PipelineKind::one_f_one_b;
  RouterKind router = RouterKind::fixed;
  StageConsensus consensus = StageConsensus::allreduce;
  std::size_t micro_batches = 8;  ///< Micro-batches in a run, for all chains together.
  std::size_t micro_batch = 1;    ///< Samples in a micro-batch.
  std::size_t test_samples = 0;   ///< Samples in a test, if the run has a target; 0: no tests.
  /// For the schedule 2bw: micro-batches of one replica between two updates.
  std::size_t accumulate = 0;
  StagePlanKind plan = StagePlanKind::steady;
  /// The stage of each pinned peer, by the peer's name.
  std::map<std::string, std::uint32_t> pins = {};
  /// The largest number of peers that may carry a stage as one group. Above 1, the schedule must be
  /// synchronous and `consensus` must be all-reduce.
  std::size_t group = 1;
  /// The largest number of a stage's slices that fit into a peer's memory; 0: all of them fit.
  std::size_t slices_most = 0;
  std::size_t ahead = 1;   ///< A transfer is hidden if it takes no longer than this many passes.
  double mix_alpha = 0.5;  ///< For gossip: the elastic coefficient of a pair of replicas.
  MixRule rule;            ///< For mixing: the rule, as returned by in_runs().
  std::uint64_t mix_every = 1;   ///< For gossip and mixing: runs from one averaging to the next.
  std::uint64_t copy_every = 8;  ///< Runs from one copy for neighbours to the next; 0: no copies.
  /// The version at which a resumed peer has the parts in `resumed_parts`.
  std::optional<ModelVersion> resumed;
  std::vector<std::uint32_t> resumed_parts;
  std::vector<StageState> resumed_copies;  ///< Older copies that a resumed peer has.
  std::vector<StageSize> stages;
  /// Seconds that a micro-batch takes in each stage. Only the ratios matter.
  std::vector<double> stage_seconds;
  std::size_t bucket_elements = 1 << 20;
  std::size_t segment_elements = block_bytes_usual / sizeof(float);
  Agreement::Options agreement;
  /// Allocates all data that we send. Not owned; must outlive the mode and its messages.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();

  StageParts parts() const;
  std::vector<PartSize> part_sizes() const;
  /// How peers form groups and divide stages among themselves.
  StagePlanOptions planning() const;
  /// The largest number of bytes that an honest peer sends to a carrier of `stage` in a run for
  /// this stage: results of passes, pieces of sums, a message of mixing, and a copy of its state.
  std::size_t sent_bytes_max(std::uint32_t stage) const;

  static constexpr std::size_t field_count = 25;
};

}  // namespace gv
