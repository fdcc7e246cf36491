// The settings with which a plan runs, and the settings that must be removed from the config.
#pragma once

#include <string>
#include <vector>

#include "cli/split_report.hpp"

namespace gv {

struct PlannedSettings {
  std::string text;                  ///< The settings as TOML, to be written into the config.
  std::vector<std::string> removed;  ///< Settings to remove, such as "pipeline.memory_mb".
  /// Why the config is refused even with these changes; usually empty. The places of these problems
  /// name settings, but no lines.
  Problems problems;
};

/// The settings with which this version runs the plan. They are checked together with those of the
/// report's config, as if they were written into it.
PlannedSettings planned_settings(const SplitReport& report, const SplitPlan& plan);

}  // namespace gv
