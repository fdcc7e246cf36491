// The mean of several models and how far they lie from it.
#pragma once

#include <span>
#include <vector>

namespace gv {

/// The mean, element by element, summed in double in the order given. All models have one size;
/// empty for none.
std::vector<float> mean_of(std::span<const std::span<const float>> models);

/// sqrt((1/n) sum ||x_i - mean||^2): the consensus distance.
double spread_of(std::span<const std::span<const float>> models, std::span<const float> mean);

}  // namespace gv
