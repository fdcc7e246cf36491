// Makes the options of a node from a config, a model and a machine. No other code makes them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <vector>

#include "peer/config/config.hpp"
#include "peer/modes/modes.hpp"
#include "train/learner/learner.hpp"
#include "train/learner/stage_learner.hpp"

namespace gv {

/// The properties of a model that affect the options. If only `layout` is set, they describe a
/// vector without an optimiser.
struct ModelFacts {
  Layout layout;
  /// Number of floats that the optimiser keeps besides the parameters.
  std::size_t optimizer_elements = 0;
  bool is_arrays = false;    ///< True if the peer has no model, only arrays to average.
  bool has_buffers = false;  ///< True if parts of the model are averaged but have no gradient.
  /// True if the optimiser has a momentum, which a population may vary.
  bool has_momentum = false;
  std::vector<DensePlace> dense;  ///< Layers whose gradients may be sent as sufficient factors.
  std::vector<StageSize> stages;  ///< The stages of a pipeline.
  /// Time of a micro-batch in each stage, relative to the other stages.
  std::vector<double> stage_seconds;
  std::size_t slices_most = 0;  ///< The most slices of a stage, as in PipelineOptions.
};

/// Facts of a model that the built-in learner trains as a whole.
ModelFacts facts_of(const Layout& layout, const OptimizerSpec& optimizer,
                    std::vector<DensePlace> dense = {});
/// Facts of a model that any learner trains as a whole.
ModelFacts facts_of(Learner& learner, const OptimizerSpec& optimizer);
/// Facts of a model that is trained in stages.
ModelFacts facts_of(const StageLearner& learner, const OptimizerSpec& optimizer);

/// The properties of a peer and its machine that affect the options. The fields `resumed...` have
/// the same meaning as in PipelineOptions.
struct PeerFacts {
  /// The peer's budget in steps, or in runs of a pipeline. Not used if all peers share one budget.
  std::uint64_t steps = 1;
  std::uint64_t data = 0;       ///< Samples of the peer's shard.
  std::uint64_t all_data = 0;   ///< Samples of all shards; 0 if unknown.
  std::uint64_t test_data = 0;  ///< Samples on which the peer can measure its model.
  SwarmNote swarm;              ///< The checkpoint's note about the swarm's work.
  /// The fingerprint of the user's own first model, as in CourseOptions; 0 if there is none.
  std::uint64_t first_model = 0;
  /// Number of peers to wait for at the start. Used only if it is larger than the config's number.
  std::size_t wait_for = 1;
  Duration alone_after{};  ///< As in CourseOptions.
  /// Number of processors of the machine; 0 means that sums never wait for a processor.
  unsigned processors = 0;
  /// The settings revision that was in force in the swarm before this peer resumed.
  SettingsRevision revision;
  std::optional<ModelVersion> resumed;
  std::vector<std::uint32_t> resumed_parts;
  std::vector<StageState> resumed_copies;
  /// Memory for data that all-reduces and stages send. Not owned; it must outlive the node and its
  /// messages.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
};

/// Returns the swarm's budget in samples; 0 if each peer has its own budget. `all_data` is as in
/// PeerFacts.
std::uint64_t swarm_budget(const Config& config, std::uint64_t all_data);

/// Makes the options of all parts of a node.
NodeOptions node_options(const Config& config, const ModelFacts& model, PeerFacts peer);

}  // namespace gv
