// Estimates the memory for generated data, which every peer of the run keeps in full.
#include "peer/config/generated_problems.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace gv {

Problems generated_problems(const Config& config) {
  if (config.data.kind != DataKind::generated) return {};
  constexpr double gib = 1 << 30;
  constexpr double gib_max = 64;
  const GeneratedConfig& data = config.data.generated;
  const auto number = [](std::size_t value) { return static_cast<double>(value); };
  const double inputs = number(data.inputs());
  // A sample holds one number for a label, or as many as there are targets. Centres and weights
  // have double precision.
  const double outputs = std::max(1.0, number(data.targets));
  const double samples =
      (number(data.samples) + number(data.test_samples)) * (inputs + outputs) * sizeof(float);
  const double origins = data.targets > 0 ? outputs : number(data.classes) * number(data.blobs);
  const double around = origins * inputs * sizeof(double);
  if (samples + around <= gib_max * gib) return {};
  const char* setting = samples >= around ? "samples" : data.targets > 0 ? "targets" : "classes";
  return {{fmt::format("data.generated.{}", setting),
           fmt::format("generated data of {:.0f} GiB: {:.0f} numbers in each of {} samples; a peer "
                       "keeps at most {:.0f} GiB",
                       (samples + around) / gib, inputs, data.samples + data.test_samples, gib_max),
           "use fewer samples, features, classes, blobs or targets, or smaller images"}};
}

}  // namespace gv
