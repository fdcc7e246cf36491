// `grapevine create`: begins a swarm whose peers join by tickets, and runs its first peer.
#include <CLI/CLI.hpp>
#include <csignal>
#include <memory>

#include "cli/commands.hpp"
#include "cli/ticket_options.hpp"
#include "peer/config/refusal.hpp"
#include "peer/host/swarm_start.hpp"

namespace gv {
namespace {

int create(const SwarmArguments& arguments, const HostHooks& hooks) {
  HostOptions options;
  const Problems problems = prepare_to_create(arguments, options);
  if (!problems.empty()) return fail(problems);
  options.hooks = hooks;
  std::signal(SIGPIPE, SIG_IGN);
  return run_peer(options);
}

}  // namespace

void add_create(CLI::App& app, const HostHooks& hooks) {
  const auto arguments = std::make_shared<SwarmArguments>();
  auto* command =
      app.add_subcommand("create", "Begin a swarm, and print the ticket by which others join it");
  command->add_option(
      "CONFIG", arguments->host.config_path,
      "The run's TOML file, which others get with the ticket; without it a built-in "
      "task");
  add_peer_options(*command, *arguments, "run.folder/NAME");
  command->get_option("--listen")->required();
  add_ticket_options(*command, arguments->terms);
  command->footer(
      "The swarm's own key stays in FOLDER/swarm/swarm_key; started again there, the peer goes on "
      "with its swarm.\n\n"
      "Example:\n  grapevine create configs/fashion-mlp.toml --listen :7000 --uses 2");
  command->callback([arguments, hooks] { exit_with(create(*arguments, hooks)); });
}

}  // namespace gv
