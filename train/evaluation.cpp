// Evaluates whole data sets, batch by batch.
#include "train/evaluation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.hpp"

namespace gv {

std::size_t evaluation_batch(const DataSet& data) {
  // This many predictions keep a processor busy; more would only need more memory for activations.
  constexpr std::size_t predictions = 2048;
  return std::clamp<std::size_t>(predictions / data.predictions, 1, 256);
}

Score evaluate(Model& model, std::span<const float> parameters, const DataSet& data) {
  Score total;
  const std::size_t batch_max = evaluation_batch(data);
  std::vector<float> inputs(batch_max * data.features());
  for (std::size_t begin = 0; begin < data.size(); begin += batch_max) {
    const std::size_t count = std::min(batch_max, data.size() - begin);
    for (std::size_t i = 0; i < count; ++i) {
      data.read(begin + i, std::span(inputs).subspan(i * data.features(), data.features()));
    }
    Batch batch{.inputs = std::span(inputs).first(count * data.features()),
                .labels = {},
                .targets = {},
                .size = count};
    if (data.classes > 0) {
      batch.labels =
          std::span(data.labels).subspan(begin * data.predictions, count * data.predictions);
    } else {
      batch.targets =
          std::span(data.targets).subspan(begin * data.target_width, count * data.target_width);
    }
    const Score score = model.evaluate(parameters, batch);
    total += score;
  }
  return total;
}

double determination(const Score& score, const DataSet& data) {
  const std::size_t width = data.target_width;
  check(data.classes == 0 && width > 0, "R2 is of data with targets");
  const auto samples = static_cast<double>(data.size());
  std::vector<double> means(width);
  for (std::size_t i = 0; i < data.targets.size(); ++i) {
    means[i % width] += static_cast<double>(data.targets[i]) / samples;
  }
  double total = 0;
  for (std::size_t i = 0; i < data.targets.size(); ++i) {
    const double from_mean = static_cast<double>(data.targets[i]) - means[i % width];
    total += from_mean * from_mean;
  }
  const double residual = 2 * score.loss;  // The loss is half the squared distance.
  if (!std::isfinite(residual)) return -std::numeric_limits<double>::infinity();
  if (total > 0) return 1 - residual / total;
  return residual > 0 ? 0 : 1;
}

Merit merit_of(const Score& score, const DataSet& data) {
  if (data.classes > 0) return {"accuracy", score.accuracy()};
  return {"r2", determination(score, data)};
}

}  // namespace gv
