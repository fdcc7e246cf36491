// Compares floats by their bits, which is faster than comparing them as floats.
#include "base/magnitude.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>

#include "base/wide.hpp"

namespace gv {

GV_WIDE float largest_magnitude(std::span<const float> values) {
  std::uint32_t largest = 0;
  for (const float value : values) largest = std::max(largest, magnitude_bits(value));
  return std::bit_cast<float>(largest);
}

double norm_of(std::span<const float> values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

bool is_finite(std::span<const float> values) { return std::isfinite(largest_magnitude(values)); }

}  // namespace gv
