// Finds clusters among layers, and checks the loss, the optimiser and the mode against them.
#include "peer/config/cluster_problems.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "peer/config/buffer_problems.hpp"

namespace gv {
namespace {

bool has_clusters(const LayerSpec& layer) {
  return any_layer(layer, [](const LayerSpec& inner) { return inner.kind == LayerKind::clusters; });
}

}  // namespace

Problems cluster_problems(const Config& config, const std::vector<LayerSpec>& layers) {
  if (std::ranges::none_of(layers, has_clusters)) return {};
  Problems found = buffer_problems(
      config, {.reason = "centres are the quotients of sums and counts that are averaged",
               .other_model = ""});
  if (config.run.mode == ModeKind::mixing &&
      config.mixing.rule.fragment_order == FragmentOrder::own) {
    found.push_back({"mixing.fragment_order",
                     "each peer would train a part of the sums and counts, and a centre needs its "
                     "sums and its count from the same samples",
                     "take algorithm = \"diffusion\""});
  }
  if (config.model.loss != LossKind::reconstruction) {
    found.push_back({"model.loss", "clusters answer with a centre, which is to be near the input",
                     "use loss = \"reconstruction\""});
  }
  if (config.train.optimizer.kind != OptimizerKind::sgd) {
    found.push_back({"train.optimizer", "sums and counts of clusters have to move alike",
                     "use optimizer = \"sgd\""});
  }
  const ScheduleSpec& schedule = config.train.schedule;
  if (schedule.learning_rate > 1) {
    found.push_back({"train.learning_rate", "counts of clusters would become negative above 1",
                     "use 1 for Lloyd's k-means, or less to keep what earlier batches showed"});
  }
  if (schedule.reference_batch > 0) {
    found.push_back({"train.reference_batch",
                     "it raises the rate with the batch, and counts of clusters would become "
                     "negative above 1",
                     "leave it out: a mean of more samples needs no larger rate"});
  }
  const bool weighs = config.run.mode == ModeKind::gossip && has_swarm_budget(config) &&
                      config.gossip.weighs_by_data &&
                      config.data.partition.kind != PartitionKind::leased;
  if (weighs && schedule.learning_rate <= 1 &&
      schedule.learning_rate * config.gossip.weigh_max > 1) {
    found.push_back({"gossip.weigh",
                     fmt::format("updates of slow peers are up to {:g} times longer, and counts of "
                                 "clusters would become negative above 1",
                                 config.gossip.weigh_max),
                     "write weigh = \"none\" below [gossip], or a weigh_max of at most 1 / "
                     "learning_rate"});
  }
  return found;
}

}  // namespace gv
