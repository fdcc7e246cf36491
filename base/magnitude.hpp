// Whether a vector's values are finite, and the largest magnitude among them.
#pragma once

#include <span>

namespace gv {

/// Whether every value is a number.
bool is_finite(std::span<const float> values);

/// 0 of no values; infinite or NaN if any value is.
float largest_magnitude(std::span<const float> values);

}  // namespace gv
