// Draws worlds whose swarms switch to other modes.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "peer/config/algorithms.hpp"
#include "peer/config/switched_mode.hpp"
#include "sim/virtual/draw.hpp"

namespace gv {
namespace {

/// A gossip period takes at most this time, in seconds, plus one step.
constexpr double longest_period = 10;

/// Rounds down to whole milliseconds, so that the printed value is exactly the one that was used.
Duration whole_ms(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

/// Draws the mode or algorithm to switch to.
std::string draw_goal(Rng& rng, const Config& config) {
  std::vector<std::string_view> goals = {"gossip", "allreduce", "mixing"};
  if (rng.chance(0.2)) {
    for (const NamedAlgorithm& algorithm : named_algorithms()) goals.push_back(algorithm.name);
  }
  for (;;) {
    const std::string goal(goals[rng.below(goals.size())]);
    if (switched_config(config, settings_of(goal)).problems.empty()) return goal;
  }
}

/// The seconds that a step of the slowest peer takes.
double slowest_step(const Scenario& scenario) {
  double factor = 1;
  for (const SpeedRule& rule : scenario.speeds) factor = std::min(factor, rule.factor);
  return seconds(scenario.step) / factor;
}

}  // namespace

DrawnWorld as_switching(DrawnWorld world) {
  Config& config = world.config;
  Scenario& scenario = world.scenario;
  const bool has_switches = std::ranges::any_of(
      scenario.faults, [](const FaultRule& rule) { return rule.kind == FaultKind::switch_to; });
  if (config.run.mode == ModeKind::pipeline || scenario.tickets || has_switches) return world;
  Rng rng = Rng(world.seed).fork("mode switches");
  config.allreduce.local = {};
  const Config plain = settings_of_worlds();
  config.data = plain.data;
  // A world written as text has only the settings of its first mode, so reset all other settings.
  if (config.run.mode != ModeKind::gossip) config.gossip = plain.gossip;
  if (config.run.mode != ModeKind::allreduce) config.allreduce = plain.allreduce;
  if (config.run.mode != ModeKind::mixing) config.mixing = plain.mixing;
  if (scenario.dimension > 1000) scenario.dimension = 1 + rng.below(64);
  // As in worlds that begin in these modes, give a step the time of a round or a sum.
  const auto n = static_cast<double>(scenario.peers);
  scenario.step = std::max(scenario.step, whole_ms(0.003 * n * n));
  // Before a switch, all peers wait for the slowest peer's job, which may take half a period at
  // first.
  if (config.run.mode == ModeKind::gossip) {
    const double steps = longest_period / slowest_step(scenario);
    config.gossip.period_steps =
        std::min(config.gossip.period_steps, 1 + static_cast<std::uint64_t>(steps));
  }
  Config of_peers = config;
  of_peers.run.peers = scenario.peers;
  const double length = seconds(scenario.until);
  const std::uint64_t switches = 1 + rng.below(3);
  for (std::uint64_t i = 0; i < switches; ++i) {
    FaultRule rule{.kind = FaultKind::switch_to};
    rule.at = whole_ms(0.95 * rng.uniform() * length);
    rule.peers = {.any = rng.chance(0.8) ? 1 : std::min<std::size_t>(2, scenario.peers)};
    rule.algorithm = draw_goal(rng, of_peers);
    scenario.faults.push_back(std::move(rule));
  }
  return world;
}

}  // namespace gv
