// The mean of several models, and how far they are from it.
#pragma once

#include <span>
#include <vector>

namespace gv {

/// The mean, element by element, summed in double precision in the given order. All models must
/// have the same size; with no models the mean is empty.
std::vector<float> mean_of(std::span<const std::span<const float>> models);

/// The consensus distance sqrt((1/n) sum ||x_i - mean||^2).
double spread_of(std::span<const std::span<const float>> models, std::span<const float> mean);

}  // namespace gv
