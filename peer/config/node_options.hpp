// From a config, a model and a machine to the options of a node: the one place where they are made.
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

/// What options depend on in a model. One with only a layout is a vector without an optimiser.
struct ModelFacts {
  Layout layout;
  std::size_t optimizer_elements = 0;  ///< Floats that the optimiser keeps beside the parameters.
  bool has_momentum = false;           ///< The optimiser has one, which a population varies.
  std::vector<DensePlace> dense;       ///< Layers whose gradients may travel as sufficient factors.
  std::vector<StageSize> stages;       ///< Stages of a pipeline.
  std::vector<double> stage_seconds;   ///< Times of a micro-batch in them, up to a factor.
};

/// A model that is trained whole, by the built-in learner.
ModelFacts facts_of(const Layout& layout, const OptimizerSpec& optimizer,
                    std::vector<DensePlace> dense = {});
/// A model that is trained whole, by any learner.
ModelFacts facts_of(const Learner& learner, const OptimizerSpec& optimizer);
/// A model that is trained in stages.
ModelFacts facts_of(const StageLearner& learner, const OptimizerSpec& optimizer);

/// What options depend on in one peer and its machine. The `resumed` ones are as in
/// PipelineOptions.
struct PeerFacts {
  std::uint64_t steps = 1;    ///< The peer's budget.
  std::size_t wait_for = 1;   ///< Size of the start barrier where it is larger than the config's.
  unsigned processors = 0;    ///< Processors of the machine; 0: sums never wait for one.
  SettingsRevision revision;  ///< Settings that the swarm had switched to before this peer resumed.
  std::optional<ModelVersion> resumed;
  std::vector<std::uint32_t> resumed_stages;
  std::vector<StageState> resumed_copies;
  /// Memory of what sums and stages send. Not owned; it outlives the node and its messages.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
};

/// The options of all parts of a node.
NodeOptions node_options(const Config& config, const ModelFacts& model, PeerFacts peer);

}  // namespace gv
