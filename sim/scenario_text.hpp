// Reads, writes and describes scenarios as text, all from one table of keys.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/problems.hpp"
#include "peer/config/config_settings.hpp"
#include "sim/scenario.hpp"

namespace gv {

struct ParsedScenario {
  Scenario scenario;
  bool present = false;  ///< True if the file has a [scenario] table.
  Problems problems;
};

/// Reads the [scenario] of a file or text, and reports unknown keys. With `alone`, anything besides
/// a scenario is a problem, as for `launch --faults`.
ParsedScenario parse_scenario_file(const std::string& path, bool alone);
ParsedScenario parse_scenario_text(std::string_view text, std::string_view name, bool alone);

/// The keys of a struct: Scenario for [scenario], or SpeedRule, LinkRule, FaultRule or HostileRule
/// for an entry of its lists.
template <class Rule>
std::span<const Setting<Rule>> scenario_settings();

/// Writes the scenario as text that parse_scenario_text() can read.
std::string to_toml(const Scenario& scenario);

}  // namespace gv
