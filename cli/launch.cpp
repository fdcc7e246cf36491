// `grapevine launch`: runs several peers on this machine or on others.
#include "sim/local/launch.hpp"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "peer/config/refusal.hpp"
#include "sim/local/launch_on_hosts.hpp"

namespace gv {
namespace {

/// Adds the options about other machines, and returns the option that names them.
CLI::Option* add_hosts(CLI::App& command, HostsLaunchOptions& options) {
  auto* hosts = command.add_option(
      "--hosts", options.hosts,
      "Run a peer on each host of this file, with --folder there. Each line has a host as ssh "
      "knows "
      "it, and after it the address where others reach that host, if that differs");
  command.add_option("--port", options.port, "Port of the peers on those hosts")
      ->capture_default_str()
      ->check(not_a_port)
      ->needs(hosts);
  command.add_option("--ssh", options.ssh, "The command that reaches a host")
      ->capture_default_str()
      ->needs(hosts);
  return hosts;
}

int launch_elsewhere(const HostsLaunchOptions& options, const std::vector<std::string>& program) {
  if (program.empty()) return launch_on_hosts(options);
  return fail({{"--", "a program of your own cannot be started on other hosts by --hosts",
                "start it there with a rank, for example by torchrun; see docs/engines.md"}});
}

}  // namespace

void add_launch(CLI::App& app, const std::vector<std::string>& program) {
  const auto options = std::make_shared<LaunchOptions>();
  options->command = program;
  const auto folder = std::make_shared<std::string>();
  auto* command =
      app.add_subcommand("launch", "Run many peers, on this machine or by ssh on others");
  command->add_option("CONFIG", options->config,
                      "The run's TOML file; without it a built-in task that needs no data, or with "
                      "--resume the config of that run");
  auto* peers = command
                    ->add_option("-n,--peers", options->peers,
                                 "Number of peers; default: the config's run.peers, which is 4 "
                                 "unless it is set")
                    ->check(CLI::Range(std::size_t{1}, launched_peers_max));
  command->add_option("--folder", *folder, "The run's folder; default: a new one")
      ->check(not_a_folder);
  command->add_flag("--resume", options->resume,
                    "Go on with the run in --folder, with as many peers unless -n is given");
  auto* faults = command->add_option(
      "--faults", options->faults,
      "A TOML file of what goes wrong: kills, stops, partitions, bad links; default: the config's "
      "own [scenario]");
  const auto remote = std::make_shared<HostsLaunchOptions>();
  add_hosts(*command, *remote)->excludes(peers)->excludes(faults);
  command->footer(
      "The words after -- are a program whose own loop joins the run with the Grapevine library; "
      "it\n"
      "is started in place of each peer, and gets an interrupt (SIGINT) on Ctrl-C.\n\n"
      "If the reader of its output goes away, all peers end as after Ctrl-C.\n\n"
      "Example:\n  grapevine launch -n 4 configs/fashion-mlp.toml\n"
      "  grapevine launch -n 8 configs/fashion-mlp.toml --faults configs/faults/churn.toml\n"
      "  grapevine launch -n 4 run.toml -- python3 train.py\n"
      "  grapevine launch --hosts hosts.txt configs/fashion-mlp.toml");
  command->callback([options, folder, remote] {
    if (!remote->hosts.empty()) {
      remote->config = options->config;
      remote->folder = folder->empty() ? "grapevine-run" : *folder;
      remote->resume = options->resume;
      exit_with(launch_elsewhere(*remote, options->command));
    }
    options->folder = *folder;
    options->program = std::filesystem::read_symlink("/proc/self/exe");
    exit_with(launch(*options));
  });
}

}  // namespace gv
