// Stands in for the oneDNN network in a build without it.
#include "train/layers/network.hpp"

namespace gv {

std::unique_ptr<Network<float>> make_onednn_network(const ModelPlan&, std::size_t) {
  return nullptr;
}

}  // namespace gv
