// Settings that do not work with a model's buffers, such as the statistics of a batch norm.
#pragma once

#include <string_view>

#include "base/problems.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// Texts for messages about values of a model that have to be averaged unchanged.
struct AveragedValues {
  std::string_view reason = "this model has buffers that are averaged";
  /// An alternative to add to each remedy: a model without such values. Begins with a comma; may be
  /// empty.
  std::string_view other_model =
      ", or a model without such buffers (a group norm in place of a batch norm)";
};

/// Lists the settings that would treat `values` like a gradient. Such settings measure or compress
/// a gradient, apply a momentum to it, or add up the changes of several peers. A variance, for
/// example, could then become negative.
Problems buffer_problems(const Config& config, const AveragedValues& values = {});

}  // namespace gv
