// Settings that do not work with a model's buffers, such as the statistics of a batch norm.
#pragma once

#include <string_view>

#include "base/problems.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// Values of a model that have to be averaged as they are.
struct AveragedValues {
  std::string_view reason = "this model has buffers that are averaged";
  /// A model without such values, with a comma before it. May be empty.
  std::string_view other_model =
      ", or a model without such buffers (a group norm in place of a batch norm)";
};

/// Lists the settings that would treat such values like a gradient: they measure it, send only a
/// part of it, or add it with a momentum or with several peers' changes at once. A variance could
/// then become negative.
Problems buffer_problems(const Config& config, const AveragedValues& values = {});

}  // namespace gv
