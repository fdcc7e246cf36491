// Draws for weights, zeros for biases, ones for gains.
#include "train/layers/initial_values.hpp"

#include <algorithm>
#include <cmath>

namespace gv {

void initialise(const ModelPlan&, const Layout& layout, std::span<float> parameters, Rng rng) {
  for (const TensorSlot& slot : layout.slots()) {
    const std::span<float> values = parameters.subspan(slot.offset, slot.size);
    if (slot.name.ends_with(".weight")) {
      // He 2015, uniform: the variance 2 / fan-in keeps activations alive through ReLUs.
      const double bound =
          std::sqrt(6.0 * static_cast<double>(slot.shape[0]) / static_cast<double>(slot.size));
      Rng draw = rng.fork(slot.name);
      for (float& value : values) value = static_cast<float>((2 * draw.uniform() - 1) * bound);
    } else {
      std::ranges::fill(values, slot.name.ends_with(".gain") ? 1.0f : 0.0f);
    }
  }
}

}  // namespace gv
