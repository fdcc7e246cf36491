// Draws the centres of the classes, then samples around them.
#include "train/data/generated.hpp"

#include <cmath>

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
  std::vector<double> centres(spec.classes * spec.features);
  for (double& value : centres) value = unit * centre_rng.normal();
  DataSet data;
  data.shape = {spec.features, 1, 1};
  data.classes = spec.classes;
  data.floats.reserve(spec.samples * spec.features);
  data.labels.reserve(spec.samples);
  for (std::size_t n = 0; n < spec.samples; ++n) {
    const std::size_t label = n % spec.classes;
    data.labels.push_back(static_cast<std::int32_t>(label));
    for (std::size_t i = 0; i < spec.features; ++i) {
      const double value = centres[label * spec.features + i] + spec.noise * rng.normal();
      data.floats.push_back(static_cast<float>(value));
    }
  }
  return data;
}

}  // namespace gv
