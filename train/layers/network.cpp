// Chooses the network of a plan.
#include "train/layers/network.hpp"

#include <utility>

#include "train/layers/ternary.hpp"

namespace gv {

std::unique_ptr<Network<float>> make_network(const ModelPlan& plan, std::size_t batch) {
  std::unique_ptr<Network<float>> network = make_onednn_network(plan, batch);
  if (!network) network = make_plain_network<float>(plan, batch);
  if (plan.weights == WeightValues::floats) return network;
  return make_ternary_network(std::move(network), plan.layout);
}

}  // namespace gv
