// Computes means and spreads by sums over models.
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

namespace {

/// Calls `use` with the place and the value of each element that the model holds.
template <class Use>
void for_each_place(const HeldModel& model, const Use& use) {
  std::size_t at = 0;
  for (const Range& range : model.ranges) {
    for (std::size_t i = range.begin; i < range.end; ++i) use(i, model.values[at++]);
  }
}

std::vector<double> holders_of(std::size_t size, std::span<const HeldModel> models) {
  std::vector<double> holders(size);
  for (const HeldModel& model : models) {
    for_each_place(model, [&](std::size_t i, float) { ++holders[i]; });
  }
  return holders;
}

}  // namespace

std::vector<float> mean_of_held(std::size_t size, std::span<const HeldModel> models) {
  const std::vector<double> holders = holders_of(size, models);
  std::vector<double> sum(size);
  for (const HeldModel& model : models) {
    for_each_place(model, [&](std::size_t i, float value) { sum[i] += value; });
  }
  std::vector<float> mean(size);
  for (std::size_t i = 0; i < size; ++i) {
    if (holders[i] == 0) return {};
    mean[i] = static_cast<float>(sum[i] / holders[i]);
  }
  return mean;
}

double spread_of_held(std::span<const HeldModel> models, std::span<const float> mean) {
  const std::vector<double> holders = holders_of(mean.size(), models);
  double squares = 0;
  for (const HeldModel& model : models) {
    for_each_place(model, [&](std::size_t i, float value) {
      const double difference = static_cast<double>(value) - mean[i];
      squares += difference * difference / holders[i];
    });
  }
  return std::sqrt(squares);
}

}  // namespace gv
