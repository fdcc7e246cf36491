// The mean of several models, and the models' distance from their mean.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/range.hpp"

namespace gv {

/// The mean, element by element, summed in double precision in the given order. All models must
/// have the same size; with no models the mean is empty.
std::vector<float> mean_of(std::span<const std::span<const float>> models);

/// The consensus distance sqrt((1/n) sum ||x_i - mean||^2) of n models x_i.
double spread_of(std::span<const std::span<const float>> models, std::span<const float> mean);

/// The held part of a model: `values` are the elements in `ranges`.
struct HeldModel {
  std::span<const Range> ranges;
  std::span<const float> values;
};

/// The mean of models with `size` places, each place averaged over the models that hold it. Empty
/// if some place is held by no model.
std::vector<float> mean_of_held(std::size_t size, std::span<const HeldModel> models);

/// The consensus distance of models that are held in part: the squared distances at each place are
/// averaged over the models that hold the place.
double spread_of_held(std::span<const HeldModel> models, std::span<const float> mean);

}  // namespace gv
