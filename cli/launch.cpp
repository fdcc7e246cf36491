// `grapevine launch`: runs many peers on this machine.
#include "sim/local/launch.hpp"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.hpp"

namespace gv {

void add_launch(CLI::App& app, const std::vector<std::string>& program) {
  const auto options = std::make_shared<LaunchOptions>();
  options->command = program;
  const auto folder = std::make_shared<std::string>();
  auto* command = app.add_subcommand("launch", "Run many peers on this machine");
  command->add_option("CONFIG", options->config,
                      "The run's TOML file; without it a built-in task that needs no data");
  command->add_option("-n,--peers", options->peers, "Number of peers")
      ->capture_default_str()
      ->check(CLI::Range(1, 256));
  command->add_option("--folder", *folder, "The run's folder; default: a new one");
  command->add_flag("--resume", options->resume, "Go on with the run in --folder");
  command->add_option("--faults", options->faults,
                      "A TOML file of what goes wrong: kills, stops, partitions, bad links; "
                      "default: the config's own [scenario]");
  command->footer(
      "The words after -- are a program whose own loop joins the run with the Grapevine library; "
      "it\n"
      "is started in place of each peer, and gets an interrupt (SIGINT) on Ctrl-C.\n\n"
      "If the reader of its output goes away, all peers end as after Ctrl-C.\n\n"
      "Example:\n  grapevine launch -n 4 configs/fashion-mlp.toml\n"
      "  grapevine launch -n 8 configs/fashion-mlp.toml --faults configs/faults/churn.toml\n"
      "  grapevine launch -n 4 run.toml -- python3 train.py");
  command->callback([options, folder] {
    options->folder = *folder;
    options->program = std::filesystem::read_symlink("/proc/self/exe");
    exit_with(launch(*options));
  });
}

}  // namespace gv
