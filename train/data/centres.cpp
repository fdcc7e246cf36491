// Finds the nearest centre, and reads centres from a k-means model.
#include "train/data/centres.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string_view>
#include <utility>

#include "train/checkpoint/safetensors.hpp"

namespace gv {

std::size_t nearest(const Centres& centres, std::span<const float> x,
                    const std::vector<bool>& usable) {
  std::size_t found = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t j = 0; j < centres.size(); ++j) {
    if (!usable.empty() && !usable[j]) continue;
    double squares = 0;
    for (std::size_t i = 0; i < centres.features; ++i) {
      const double apart =
          static_cast<double>(x[i]) - static_cast<double>(centres.values[j * centres.features + i]);
      squares += apart * apart;
    }
    if (!(squares < least)) continue;
    least = squares;
    found = j;
  }
  return found;
}

LoadedCentres read_centres(const std::filesystem::path& file) {
  LoadedTensors loaded = read_safetensors(file);
  LoadedCentres result{.centres = {}, .problem = std::move(loaded.problem)};
  if (!result.problem.empty()) return result;
  const auto tensor = [&](std::string_view name) {
    return std::ranges::find(loaded.tensors, name, &Tensor::name);
  };
  const auto sums = tensor("clusters1.sums");
  const auto counts = tensor("clusters1.counts");
  const bool are_there = sums != loaded.tensors.end() && counts != loaded.tensors.end();
  if (!are_there || sums->shape.size() != 2 || counts->shape.size() != 1 ||
      counts->shape[0] != sums->shape[0] || sums->values.empty()) {
    result.problem = "it is no model of k-means, whose layer is clusters";
    return result;
  }
  result.centres.features = sums->shape[1];
  result.centres.values = std::move(sums->values);
  for (std::size_t i = 0; i < result.centres.values.size(); ++i) {
    float& value = result.centres.values[i];
    value /= counts->values[i / result.centres.features];
    const bool is_normal =
        counts->values[i / result.centres.features] >= std::numeric_limits<float>::min();
    if (is_normal && std::isfinite(value)) continue;
    result.problem = "centre " + std::to_string(i / result.centres.features) + " has no samples";
    return result;
  }
  return result;
}

}  // namespace gv
