// Evaluates whole data sets, batch by batch.
#include "train/evaluation.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "base/check.hpp"

namespace gv {

std::size_t evaluation_batch(const DataSet& data) {
  // A batch with this many predictions or input values keeps a processor busy. A larger batch would
  // only need more memory for activations.
  constexpr std::size_t predictions = 2048;
  constexpr std::size_t inputs = std::size_t{1} << 20;
  const std::size_t features = std::max<std::size_t>(1, data.features());
  return std::clamp<std::size_t>(std::min(predictions / data.predictions, inputs / features), 1,
                                 256);
}

Batch read_batch(const DataSet& data, std::size_t begin, std::size_t count,
                 std::span<float> inputs) {
  for (std::size_t i = 0; i < count; ++i) {
    data.read(begin + i, inputs.subspan(i * data.features(), data.features()));
  }
  Batch batch{
      .inputs = inputs.first(count * data.features()), .labels = {}, .targets = {}, .size = count};
  if (data.classes > 0) {
    batch.labels =
        std::span(data.labels).subspan(begin * data.predictions, count * data.predictions);
  } else {
    batch.targets =
        std::span(data.targets).subspan(begin * data.target_width, count * data.target_width);
  }
  return batch;
}

namespace {

/// Calls visit(batch) with consecutive batches until all samples have been visited.
template <class Visit>
void each_batch(const DataSet& data, Visit visit) {
  const std::size_t batch_max = evaluation_batch(data);
  std::vector<float> inputs(batch_max * data.features());
  for (std::size_t begin = 0; begin < data.size(); begin += batch_max) {
    const std::size_t count = std::min(batch_max, data.size() - begin);
    visit(read_batch(data, begin, count, inputs));
  }
}

}  // namespace

Score evaluate(Model& model, std::span<const float> parameters, const DataSet& data) {
  Score total;
  each_batch(data, [&](const Batch& batch) { total += model.evaluate(parameters, batch); });
  return total;
}

std::vector<float> outputs_on(Model& model, std::span<const float> parameters,
                              const DataSet& data) {
  std::vector<float> outputs;
  each_batch(data, [&](const Batch& batch) {
    const std::span<const float> some = model.predict(parameters, batch);
    outputs.insert(outputs.end(), some.begin(), some.end());
  });
  return outputs;
}

double determination(const Score& score, const DataSet& data) {
  const std::size_t width = score.of_inputs ? data.features() : data.target_width;
  check(score.of_inputs || (data.classes == 0 && width > 0), "R2 is of data with targets");
  std::vector<float> input(score.of_inputs ? width : 0);
  const auto wanted = [&](std::size_t sample) -> std::span<const float> {
    if (!score.of_inputs) return std::span(data.targets).subspan(sample * width, width);
    data.read(sample, input);
    return input;
  };
  const auto samples = static_cast<double>(data.size());
  std::vector<double> means(width);
  for (std::size_t n = 0; n < data.size(); ++n) {
    const std::span<const float> values = wanted(n);
    for (std::size_t i = 0; i < width; ++i) means[i] += static_cast<double>(values[i]) / samples;
  }
  double total = 0;
  for (std::size_t n = 0; n < data.size(); ++n) {
    const std::span<const float> values = wanted(n);
    for (std::size_t i = 0; i < width; ++i) {
      const double from_mean = static_cast<double>(values[i]) - means[i];
      total += from_mean * from_mean;
    }
  }
  const double part = static_cast<double>(score.samples) / samples;
  const double residual = 2 * score.loss / part;  // The loss is half the squared distance.
  if (!std::isfinite(residual)) return -std::numeric_limits<double>::infinity();
  if (total > 0) return 1 - residual / total;
  return residual > 0 ? 0 : 1;
}

Merit merit_of(const Score& score, const DataSet& data) {
  if (data.classes > 0 && !score.of_inputs) return {"accuracy", score.accuracy()};
  return {"r2", determination(score, data)};
}

}  // namespace gv
