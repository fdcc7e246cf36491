// Draws weights, tables and centres at random; biases are zero, gains, counts
// and mean squares are one. The gates
// of an LSTM begin open.
#include "train/layers/initial_values.hpp"

#include <algorithm>
#include <cmath>

namespace gv {
namespace {

/// Standard deviation of a tensor's initial values if they are normally distributed, else 0.
double deviation_of(const ModelPlan& whole, double deviation, const TensorSlot& slot) {
  constexpr double of_tables = 0.02;
  // Near the mean of inputs of deviation 1, nearly every centre is the nearest one of some input.
  constexpr double of_centres = 0.1;
  if (slot.name.ends_with(".tokens") || slot.name.ends_with(".positions")) return of_tables;
  if (slot.name.ends_with(".sums")) return of_centres;
  if (!slot.name.ends_with(".weight")) return 0;
  const auto& slots = whole.layout.slots();
  const auto found = std::ranges::find(slots, slot.name, &TensorSlot::name);
  const std::vector<std::size_t>& residual = whole.residual_weights;
  const bool is_last = std::ranges::find(residual, found->offset) != residual.end();
  return deviation / (is_last ? std::sqrt(static_cast<double>(residual.size())) : 1);
}

}  // namespace

void initialise(const ModelPlan& whole, double deviation, const Layout& layout,
                std::span<float> parameters, Rng rng) {
  for (const TensorSlot& slot : layout.slots()) {
    const std::span<float> values = parameters.subspan(slot.offset, slot.size);
    Rng draw = rng.fork(slot.name);
    if (const double normal = deviation_of(whole, deviation, slot); normal > 0) {
      for (float& value : values) value = static_cast<float>(normal * draw.normal());
    } else if (slot.name.ends_with(".weight")) {
      // He 2015, uniform: the variance 2 / fan-in keeps the size of activations through ReLUs.
      const double bound =
          std::sqrt(6.0 * static_cast<double>(slot.shape[0]) / static_cast<double>(slot.size));
      for (float& value : values) value = static_cast<float>((2 * draw.uniform() - 1) * bound);
    } else if (slot.name.ends_with("_gates")) {
      // Small enough that what a state says of itself neither grows nor is lost at once.
      const double bound = 1 / std::sqrt(static_cast<double>(slot.shape[0]) / 4);
      for (float& value : values) value = static_cast<float>((2 * draw.uniform() - 1) * bound);
    } else if (slot.name.ends_with(".gate_biases")) {
      // The second quarter is that of the forget gates (Gers 2000, Jozefowicz 2015).
      std::ranges::fill(values, 0.0f);
      std::ranges::fill(values.subspan(slot.size / 4, slot.size / 4), 1.0f);
    } else {
      const bool is_one = slot.name.ends_with(".gain") || slot.name.ends_with(".counts") ||
                          slot.name.ends_with(".square");
      std::ranges::fill(values, is_one ? 1.0f : 0.0f);
    }
  }
}

}  // namespace gv
