// `grapevine sim`: runs many virtual peers on a virtual clock.
#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/simulate.hpp"
#include "cli/swarm.hpp"

namespace gv {
namespace {

struct SimArguments {
  SimulateOptions simulate;
  SwarmOptions swarm;
  std::string folder;
  bool check = false;
};

}  // namespace

void add_sim(CLI::App& app) {
  const auto arguments = std::make_shared<SimArguments>();
  auto* command = app.add_subcommand("sim", "Run many virtual peers on a virtual clock");
  auto* config = command->add_option("CONFIG", arguments->simulate.config,
                                     "A TOML file, with a [scenario]; without it a built-in task");
  command->add_option("--seed", arguments->simulate.seed, "The seed of everything that is drawn")
      ->check(not_a_whole_number)
      ->capture_default_str();
  auto* folder = command
                     ->add_option("--folder", arguments->folder,
                                  "Where curves.csv and curves.svg go; default: a new run folder")
                     ->check(not_a_folder);
  command->add_flag("--trace", arguments->simulate.trace, "Print one line an event");
  auto* traffic =
      command->add_flag("--traffic", arguments->simulate.traffic,
                        "Print the bytes of small messages by kind, and write traffic.json");
  auto* check =
      command->add_flag("--check", arguments->check,
                        "Check every invariant after every event, heal at the end and wait for "
                        "what must come about; exit codes as with --swarm");
  auto* swarm_option = command->add_option(
      "--swarm", arguments->swarm.worlds,
      "Instead of CONFIG: this many worlds drawn from the seeds from --seed on, with "
      "all invariants checked; exit code 3, 4 or 5 for unsafe, stuck or crashed");
  swarm_option->excludes(config)->excludes(folder)->excludes(traffic)->excludes(check);
  check->excludes(folder)->excludes(traffic);
  std::vector<std::string> kinds;
  for (const WorldKind& kind : world_kinds()) kinds.emplace_back(kind.name);
  command
      ->add_option(
          "--kind", arguments->swarm.kinds,
          "Turn every drawn world that allows it into one of this kind; may be repeated, and "
          "acts in the order given")
      ->check(CLI::IsMember(kinds))
      ->allow_extra_args(false)
      ->needs(swarm_option);
  command
      ->add_flag("--shrink", arguments->swarm.shrink, "Make a world that fails as small as it gets")
      ->needs(swarm_option);
  command->footer(
      "Example:\n  grapevine sim configs/wan-64.toml --seed 7\n  grapevine sim --swarm 2000");
  command->callback([arguments, swarm_option] {
    if (swarm_option->count() > 0) {
      arguments->swarm.seed = arguments->simulate.seed;
      arguments->swarm.trace = arguments->simulate.trace;
      exit_with(run_swarm(arguments->swarm));
    }
    arguments->simulate.folder = arguments->folder;
    if (arguments->check) {
      exit_with(check_scenario(arguments->simulate));
    }
    exit_with(simulate(arguments->simulate));
  });
}

}  // namespace gv
