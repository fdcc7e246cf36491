// Data whose sums are exact in any order: small integers over a power of two.
#pragma once

#include <cstddef>
#include <vector>

namespace gv {

/// v_i = ((factor i + offset) mod modulus - floor(modulus / 2)) / divisor.
struct Dyadic {
  std::size_t factor = 0, offset = 0, modulus = 0, divisor = 0;

  template <class T>
  std::vector<T> values(std::size_t count) const {
    std::vector<T> values(count);
    for (std::size_t i = 0; i < count; ++i) {
      const auto number = static_cast<long>((factor * i + offset) % modulus);
      values[i] = static_cast<T>(number - static_cast<long>(modulus / 2)) / static_cast<T>(divisor);
    }
    return values;
  }
};

/// The sum of (i + 1) v_i, a figure for comparing results with known ones.
template <class T>
double checksum(const std::vector<T>& values) {
  double sum = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    sum += static_cast<double>(i + 1) * static_cast<double>(values[i]);
  }
  return sum;
}

constexpr Dyadic dyadic_x{37, 11, 17, 8};
constexpr Dyadic dyadic_w{29, 5, 19, 8};
constexpr Dyadic dyadic_b{7, 3, 5, 4};
constexpr Dyadic dyadic_dy{23, 1, 13, 4};

}  // namespace gv
