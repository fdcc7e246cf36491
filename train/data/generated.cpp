// Draws the centres of the blobs or the weights of the targets, and then the samples.
#include "train/data/generated.hpp"

#include <cmath>
#include <numbers>
#include <span>
#include <vector>

#include "base/rng.hpp"

namespace gv {
namespace {

/// Mean distance between two centres. With noise 1 and ten classes, about 93 % of samples can be
/// classified correctly.
constexpr double separation = 4.5;

/// The number of waves that make up each channel of an image's centre, and how often the shortest
/// one repeats across the image.
constexpr std::size_t waves = 4;
constexpr double repeats_max = 4;

SampleShape shape_of(const GeneratedSpec& spec) {
  if (spec.side == 0) return {spec.features, 1, 1};
  return {spec.features / (spec.side * spec.side), spec.side, spec.side};
}

std::vector<double> draw_images(const GeneratedSpec& spec, std::size_t blobs, Rng& rng) {
  const std::size_t plane = spec.side * spec.side;
  const double magnitude = 1 / std::sqrt(waves / 2.0);
  std::vector<double> centres(blobs * spec.features);
  for (std::size_t begin = 0; begin < centres.size(); begin += plane) {
    for (std::size_t wave = 0; wave < waves; ++wave) {
      const double down = repeats_max * (2 * rng.uniform() - 1) / static_cast<double>(spec.side);
      const double across = repeats_max * (2 * rng.uniform() - 1) / static_cast<double>(spec.side);
      const double phase = rng.uniform();
      for (std::size_t i = 0; i < plane; ++i) {
        const auto row = static_cast<double>(i / spec.side);
        const auto column = static_cast<double>(i % spec.side);
        centres[begin + i] +=
            magnitude * std::cos(2 * std::numbers::pi * (down * row + across * column + phase));
      }
    }
  }
  return centres;
}

std::vector<double> draw_centres(const GeneratedSpec& spec, std::size_t blobs) {
  Rng rng = Rng(spec.seed).fork("centres");
  if (spec.side > 0) return draw_images(spec, blobs, rng);
  // In d dimensions, two standard normal points are about sqrt(2 d) apart, so scale to
  // `separation`.
  const double unit = separation / std::sqrt(2.0 * static_cast<double>(spec.features));
  std::vector<double> centres(blobs * spec.features);
  for (double& value : centres) value = unit * rng.normal();
  return centres;
}

}  // namespace

DataSet generate_blobs(const GeneratedSpec& spec, std::uint64_t stream) {
  Rng rng = Rng(spec.seed).fork("samples").fork(stream);
  const std::size_t blobs = spec.classes * spec.blobs;
  const std::vector<double> centres = draw_centres(spec, blobs);
  DataSet data;
  data.shape = shape_of(spec);
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
  data.shape = shape_of(spec);
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
