// Replaces the oneDNN functions in a build without oneDNN.
#include "train/layers/network.hpp"
#include "train/layers/product.hpp"

namespace gv {

std::unique_ptr<Network<float>> make_onednn_network(const ModelPlan&, std::size_t) {
  return nullptr;
}

const OnednnAbilities& onednn_abilities() {
  static constexpr OnednnAbilities none;
  return none;
}

bool multiply_by_onednn(const ProductSize&, const Factor<float>&, const Factor<float>&, float*,
                        std::size_t, float, bool) {
  return false;
}

}  // namespace gv
