// Evaluates whole data sets, batch by batch.
#include "train/evaluation.hpp"

#include <algorithm>
#include <vector>

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

}  // namespace gv
