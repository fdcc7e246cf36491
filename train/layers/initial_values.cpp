// Draws weights, tables and centres at random. Biases are zero, and gains, counts and mean squares
// are one. The forget gates of an LSTM begin open.
#include "train/layers/initial_values.hpp"

#include <algorithm>
#include <cmath>

namespace gv {
namespace {

/// Standard deviation of a tensor's initial values if they are normally distributed, else 0.
double deviation_of(const ModelPlan& whole, double deviation, const TensorSlot& slot) {
  constexpr double of_tables = 0.02;
  // Centres start near the mean of the inputs. If inputs have deviation 1, nearly every centre is
  // then the nearest one to some input.
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

/// Draws the values of one tensor, from first to last.
class Values {
 public:
  Values(const ModelPlan& whole, double deviation, const TensorSlot& slot, const Rng& rng)
      : slot_(slot), draw_(rng.fork(slot.name)), normal_(deviation_of(whole, deviation, slot)) {
    if (slot.name.ends_with(".weight")) {
      // He 2015, uniform: with variance 2 / fan-in, activations keep their size through ReLUs.
      bound_ = std::sqrt(6.0 * static_cast<double>(slot.shape[0]) / static_cast<double>(slot.size));
    } else if (slot.name.ends_with("_gates")) {
      // With this bound, the effect of an LSTM's state on itself neither grows nor vanishes at
      // once.
      bound_ = 1 / std::sqrt(static_cast<double>(slot.shape[0]) / 4);
    }
    is_one_ = slot.name.ends_with(".gain") || slot.name.ends_with(".counts") ||
              slot.name.ends_with(".square");
  }

  float next() {
    const std::size_t at = at_++;
    if (normal_ > 0) return static_cast<float>(normal_ * draw_.normal());
    if (bound_ > 0) return static_cast<float>((2 * draw_.uniform() - 1) * bound_);
    // The second quarter belongs to the forget gates (Gers 2000, Jozefowicz 2015).
    if (slot_.name.ends_with(".gate_biases")) return at * 4 / slot_.size == 1 ? 1.0F : 0.0F;
    return is_one_ ? 1.0F : 0.0F;
  }

 private:
  const TensorSlot& slot_;
  Rng draw_;
  double normal_ = 0;  ///< Standard deviation; 0 if the distribution is not normal.
  double bound_ = 0;   ///< Largest magnitude; 0 if the distribution is not uniform.
  bool is_one_ = false;
  std::size_t at_ = 0;
};

}  // namespace

float initialise(const ModelPlan& whole, double deviation, const Layout& layout,
                 std::span<float> parameters, const Rng& rng) {
  const Range all{0, layout.size()};
  return initialise(whole, deviation, layout, std::span(&all, 1), parameters, rng);
}

float initialise(const ModelPlan& whole, double deviation, const Layout& layout,
                 std::span<const Range> ranges, std::span<float> parameters, const Rng& rng) {
  float largest = 0;
  auto range = ranges.begin();
  float* out = parameters.data();
  for (const TensorSlot& slot : layout.slots()) {
    Values values(whole, deviation, slot, rng);
    for (std::size_t i = slot.offset; i < slot.offset + slot.size; ++i) {
      const float value = values.next();
      largest = std::max(largest, std::abs(value));
      while (range != ranges.end() && i >= range->end) ++range;
      if (range != ranges.end() && i >= range->begin) *out++ = value;
    }
  }
  return largest;
}

}  // namespace gv
