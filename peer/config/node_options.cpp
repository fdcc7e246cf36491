// Settings as options.
#include "peer/config/node_options.hpp"

#include <algorithm>

#include "peer/config/switched_mixing.hpp"
#include "peer/modes/modes.hpp"
#include "peer/node/gradient_places.hpp"
#include "train/optimizer.hpp"

namespace gv {
namespace {

void fill_in(PipelineOptions& pipeline, const Config& config, const StageLearner& learner) {
  pipeline.micro_batch = config.train.batch;
  for (std::size_t s = 0; s < learner.stages(); ++s) {
    pipeline.stages.push_back({.parameters = learner.layout(s).size(),
                               .state = learner.state_size(s),
                               .forward = learner.boundary(s).forward(),
                               .backward = learner.boundary(s).activations});
    pipeline.stage_seconds.push_back(learner.work_share(s));
  }
}

}  // namespace

NodeOptions node_options(const Config& config, const Layout& layout, std::uint64_t steps,
                         std::size_t wait_for, const StageLearner* stages) {
  NodeOptions options{.membership = config.membership,
                      .mode = config.run.mode,
                      .gossip = config.gossip,
                      .allreduce = config.allreduce,
                      .pipeline = config.pipeline.mode,
                      .mixing = config.mixing};
  options.course = {.run_seed = config.run.seed,
                    .steps = steps,
                    .save_every_steps = config.checkpoint.every_steps,
                    .wait_for_peers = std::max(config.run.wait_for_peers, wait_for),
                    .wait_max = config.run.wait_max,
                    .linger = config.run.linger,
                    .layout_hash = layout.hash(),
                    .elements = layout.size()};
  options.gossip.peak_learning_rate = config.train.schedule.learning_rate;
  PopulationOptions& population = options.gossip.population;
  population.has_momentum = has_momentum(config.train.optimizer);
  population.optimizer_elements = layout.size() * optimizer_vectors(config.train.optimizer);
  AllReduceOptions& allreduce = options.allreduce;
  allreduce.state_elements = layout.size() * (1 + optimizer_vectors(config.train.optimizer) +
                                              (allreduce.local.has_momentum() ? 1 : 0));
  allreduce.places.matrices = matrix_places(layout);
  allreduce.batch = static_cast<std::uint32_t>(config.train.batch);
  allreduce.batch_max = static_cast<std::uint32_t>(lockstep_batch_max(config));
  options.mixing.batch = static_cast<std::uint32_t>(config.train.batch);
  options.mixing.state_elements = layout.size() * (1 + optimizer_vectors(config.train.optimizer));
  options.mixing.read_revision = [config](std::string_view settings) {
    return switched_mixing(config, settings);
  };
  if (stages != nullptr) fill_in(options.pipeline, config, *stages);
  return options;
}

std::string host_part(const std::string& address) {
  const auto colon = address.rfind(':');
  std::string host = colon == std::string::npos ? address : address.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return host;
}

}  // namespace gv
