// `grapevine peer`: turns arguments and files into a running peer.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstddef>
#include <memory>

#include "cli/commands.hpp"
#include "peer/config/config.hpp"
#include "peer/config/refusal.hpp"
#include "peer/host/host.hpp"
#include "peer/host/peer_arguments.hpp"

namespace gv {
namespace {

int peer(const PeerArguments& arguments, const HostHooks& hooks) {
  HostOptions options = arguments.host;
  options.hooks = hooks;
  const Problems problems = prepare(arguments, options);
  if (!problems.empty()) return fail(problems);
  // Training must not stop because the reader of its progress lines has gone away.
  std::signal(SIGPIPE, SIG_IGN);
  return run_peer(options);
}

/// Adds the options that say which peer this is, and which other peers may join.
void add_identity(CLI::App& command, PeerArguments& arguments) {
  auto* key = command.add_option("--key", arguments.key, "This peer's secret key, from keygen")
                  ->capture_default_str();
  auto* authorized =
      command
          .add_option("--authorized", arguments.authorized, "The allow-list: one 'name key' a line")
          ->capture_default_str();
  auto* cohort = command
                     .add_option("--cohort", arguments.cohort,
                                 "The secret of a cohort, from keygen --cohort: in place of --key "
                                 "and --authorized, and much else then follows from the rank")
                     ->excludes(key)
                     ->excludes(authorized);
  command
      .add_option("--rank", arguments.rank,
                  "Rank in the cohort; default: as the engine says (see grapevine env)")
      ->check(not_a_whole_number)
      ->needs(cohort);
  command
      .add_option("--ranks", arguments.ranks,
                  "Number of ranks, the same at all peers; default: as the engine says")
      ->check(not_a_whole_number)
      ->needs(cohort);
  command
      .add_option(
          "--rendezvous", arguments.rendezvous,
          "Folder in which the ranks find each other; default: the cohort's file and .peers")
      ->needs(cohort);
}

}  // namespace

void add_peer(CLI::App& app, const HostHooks& hooks) {
  const auto arguments = std::make_shared<PeerArguments>();
  auto* command = app.add_subcommand("peer", "Run one peer");
  command->add_option("CONFIG", arguments->host.config_path,
                      "The run's TOML file; without it a built-in task");
  add_identity(*command, *arguments);
  command->add_option(
      "--name", arguments->host.name,
      "Name of this peer in what it prints; default: the allow-list's, by which others call it");
  command
      ->add_option("--folder", arguments->folder,
                   "Run folder: events, metrics, checkpoints; default: run.folder/NAME")
      ->check(not_a_folder);
  command->add_option("--listen", arguments->host.listen,
                      "HOST:PORT to listen on, port 0 for any; without it the peer only dials out, "
                      "but one of a cohort without --join listens everywhere on any port");
  command->add_option("--advertise", arguments->host.advertise,
                      "HOST:PORT others dial, when it differs from --listen");
  command->add_option("--dial-from", arguments->host.dial_from,
                      "Address of this machine that connections to others come from; default: the "
                      "system's choice");
  command
      ->add_option("--lane-port", arguments->host.lane_port,
                   "Port that bulk lanes listen on, beside --listen's; default: any free one")
      ->check(not_a_port);
  command->add_option("--lane", arguments->lane,
                      "auto, tls, plain or unix, whatever network.lane of the config says");
  command->add_option("--join", arguments->host.join,
                      "HOST:PORT or NAME@HOST:PORT of a running peer");
  command->add_option(
      "--shard", arguments->shard,
      "K/N: train on part K of N; default: the place in the allow-list, or the rank");
  command
      ->add_option("--wait-for", arguments->host.wait_for,
                   "Begin when this many peers are there, or after run.wait_max_s of the config")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, run_peers_max));
  command->add_flag("--resume", arguments->host.resume,
                    "Go on from the newest checkpoint in the folder");
  command->add_flag("--quiet", arguments->host.quiet, "No progress lines");
  command->footer(
      "If the reader of its output goes away, the peer goes on.\n\n"
      "Example:\n  grapevine peer configs/fashion-mlp.toml --listen 192.0.2.1:7000\n"
      "  grapevine peer configs/fashion-mlp.toml --listen 192.0.2.2:7000 --join 192.0.2.1:7000\n"
      "  srun -n 16 grapevine peer configs/fashion-mlp.toml --cohort cohort");
  command->callback([arguments, hooks] { exit_with(peer(*arguments, hooks)); });
}

}  // namespace gv
