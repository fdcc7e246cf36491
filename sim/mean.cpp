// Computes sums over models.
#include "sim/mean.hpp"

#include <cmath>
#include <cstddef>

namespace gv {

std::vector<float> mean_of(std::span<const std::span<const float>> models) {
  if (models.empty()) return {};
  std::vector<double> sum(models.front().size());
  for (const std::span<const float> model : models) {
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += model[i];
  }
  std::vector<float> mean(sum.size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    mean[i] = static_cast<float>(sum[i] / static_cast<double>(models.size()));
  }
  return mean;
}

double spread_of(std::span<const std::span<const float>> models, std::span<const float> mean) {
  if (models.empty()) return 0;
  double squares = 0;
  for (const std::span<const float> model : models) {
    for (std::size_t i = 0; i < mean.size(); ++i) {
      const double difference = static_cast<double>(model[i]) - mean[i];
      squares += difference * difference;
    }
  }
  return std::sqrt(squares / static_cast<double>(models.size()));
}

}  // namespace gv
