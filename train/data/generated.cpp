// Draws the centres of the classes or the weights of the targets, then samples.
#include "train/data/generated.hpp"

#include <cmath>
#include <span>
#include <vector>

#include "base/rng.hpp"

namespace gv {
namespace {

/// Mean distance between two centres. With noise 1 and ten classes, about 93 % of samples can be
/// classified.
constexpr double separation = 4.5;

}  // namespace

DataSet generate_blobs(const GeneratedSpec& spec, std::uint64_t stream) {
  Rng centre_rng = Rng(spec.seed).fork("centres");
  Rng rng = Rng(spec.seed).fork("samples").fork(stream);
  // In d dimensions two standard normal points are about sqrt(2 d) apart.
  const double unit = separation / std::sqrt(2.0 * static_cast<double>(spec.features));
  const std::size_t blobs = spec.classes * spec.blobs;
  std::vector<double> centres(blobs * spec.features);
  for (double& value : centres) value = unit * centre_rng.normal();
  DataSet data;
  data.shape = {spec.features, 1, 1};
  data.classes = spec.classes;
  data.floats.reserve(spec.samples * spec.features);
  data.labels.reserve(spec.samples);
  for (std::size_t n = 0; n < spec.samples; ++n) {
    const std::size_t blob = n % blobs;
    data.labels.push_back(static_cast<std::int32_t>(blob % spec.classes));
    for (std::size_t i = 0; i < spec.features; ++i) {
      const double value = centres[blob * spec.features + i] + spec.noise * rng.normal();
      data.floats.push_back(static_cast<float>(value));
    }
  }
  return data;
}

DataSet generate_linear(const GeneratedSpec& spec, std::uint64_t stream) {
  Rng weight_rng = Rng(spec.seed).fork("weights");
  Rng rng = Rng(spec.seed).fork("samples").fork(stream);
  std::vector<double> weights(spec.targets * spec.features);
  std::vector<double> offsets(spec.targets);
  for (std::size_t k = 0; k < spec.targets; ++k) {
    const std::span row = std::span(weights).subspan(k * spec.features, spec.features);
    double squares = 0;
    for (double& value : row) {
      value = weight_rng.normal();
      squares += value * value;
    }
    for (double& value : row) value /= std::sqrt(squares);
    offsets[k] = weight_rng.normal();
  }
  DataSet data;
  data.shape = {spec.features, 1, 1};
  data.target_width = spec.targets;
  data.floats.reserve(spec.samples * spec.features);
  data.targets.reserve(spec.samples * spec.targets);
  std::vector<double> x(spec.features);
  for (std::size_t n = 0; n < spec.samples; ++n) {
    for (double& value : x) {
      value = rng.normal();
      data.floats.push_back(static_cast<float>(value));
    }
    for (std::size_t k = 0; k < spec.targets; ++k) {
      double target = offsets[k] + spec.noise * rng.normal();
      for (std::size_t i = 0; i < spec.features; ++i)
        target += weights[k * spec.features + i] * x[i];
      data.targets.push_back(static_cast<float>(target));
    }
  }
  return data;
}

}  // namespace gv
