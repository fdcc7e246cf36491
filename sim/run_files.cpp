// Reads config and scenario from one file, or from one file each.
#include "sim/run_files.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "peer/config/switched_mixing.hpp"
#include "peer/config/switched_mode.hpp"
#include "peer/config/toml.hpp"
#include "sim/scenario_text.hpp"

namespace gv {
namespace {

/// Adds the config in `text`, or else the built-in one, to `files`, which has only a scenario.
/// `reported` are the scenario's problems.
RunFiles with_config(RunFiles files, Problems reported, const std::optional<std::string>& text,
                     const std::string& name, std::optional<std::size_t> peers) {
  if (!peers && files.scenario.peers > 0) peers = files.scenario.peers;
  ParsedConfig parsed;
  if (name.empty()) parsed.config = default_config();
  if (text) parsed = parse_config_text(*text, name, {.peers = peers});
  files.config = std::move(parsed.config);
  files.places = std::move(parsed.places);
  if (name.empty() && peers) files.config.run.peers = *peers;
  std::ranges::move(parsed.problems, std::back_inserter(files.problems));
  // Both readers report the syntax errors of a shared file, so skip repeated ones.
  for (Problem& problem : reported) {
    const auto same = [&](const Problem& said) { return to_string(said) == to_string(problem); };
    if (std::ranges::none_of(files.problems, same)) files.problems.push_back(std::move(problem));
  }
  return files;
}

}  // namespace

RunFiles read_run_files(const std::string& config, const std::string& faults,
                        std::optional<std::size_t> peers) {
  RunFiles files;
  std::optional<std::string> text;
  if (!config.empty()) text = read_text_file(config, "config", files.problems);

  ParsedScenario scenario;
  if (!faults.empty()) {
    scenario = parse_scenario_file(faults, true);
    if (scenario.problems.empty() && !scenario.present) {
      scenario.problems.push_back(
          {faults, "no [scenario] in it", "add [[scenario.fault]] or another rule"});
    }
  } else if (text) {
    scenario = parse_scenario_text(*text, config, false);
  }
  files.scenario = std::move(scenario.scenario);
  return with_config(std::move(files), std::move(scenario.problems), text, config, peers);
}

RunFiles read_run_text(const std::string& text, const std::string& name) {
  RunFiles files;
  ParsedScenario scenario = parse_scenario_text(text, name, false);
  files.scenario = std::move(scenario.scenario);
  return with_config(std::move(files), std::move(scenario.problems), text, name, std::nullopt);
}

Problems neighbours_problems(const RunFiles& files, const std::string& path) {
  const bool is_by_topology = files.config.run.mode == ModeKind::gossip &&
                              files.config.gossip.topology.kind != TopologyKind::complete;
  if (!is_by_topology || files.scenario.neighbours == 0) return {};
  return {{path + ": scenario.neighbours",
           "peers that know only some cannot agree on a topology of all",
           "leave neighbours out, or gossip.topology"}};
}

Problems switch_problems(const RunFiles& files, const std::string& path) {
  Problems problems;
  const Config& config = files.config;
  for (std::size_t i = 0; i < files.scenario.faults.size(); ++i) {
    const FaultRule& rule = files.scenario.faults[i];
    if (rule.kind != FaultKind::switch_to) continue;
    const std::string place = path + ": scenario.fault[" + std::to_string(i) + "]";
    const std::string settings = settings_of(rule.algorithm);
    SwitchedConfig next = switched_config(config, settings);
    // A swarm that only changes its mixing rule may change more settings than one that changes its
    // mode.
    const bool stays =
        config.run.mode == ModeKind::mixing && next.config.run.mode == ModeKind::mixing;
    if (stays) next.problems = switched_mixing(config, settings).problems;
    for (Problem& problem : next.problems) {
      problems.push_back(
          {place + ": " + rule.algorithm, std::move(problem.reason), std::move(problem.remedy)});
    }
  }
  return problems;
}

}  // namespace gv
