// `grapevine join`: joins a swarm by a ticket, with no config, key or list of its own.
#include <CLI/CLI.hpp>
#include <csignal>
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/ticket_options.hpp"
#include "peer/config/refusal.hpp"
#include "peer/host/swarm_start.hpp"

namespace gv {
namespace {

int join(const SwarmArguments& arguments, const std::string& ticket, const HostHooks& hooks) {
  HostOptions options;
  const Problems problems = prepare_to_join(arguments, ticket, options);
  if (!problems.empty()) return fail(problems);
  options.hooks = hooks;
  std::signal(SIGPIPE, SIG_IGN);
  return run_peer(options);
}

}  // namespace

void add_join(CLI::App& app, const HostHooks& hooks) {
  struct Arguments : SwarmArguments {
    std::string ticket;
  };
  const auto arguments = std::make_shared<Arguments>();
  auto* command = app.add_subcommand("join", "Join a swarm by a ticket, and train");
  command->add_option("TICKET", arguments->ticket, "What create or invite has printed")->required();
  add_peer_options(*command, *arguments);
  command->footer(
      "Started again with the same folder, the peer goes on as itself and needs no new ticket.\n\n"
      "Example:\n  grapevine join gv1_...");
  command->callback([arguments, hooks] { exit_with(join(*arguments, arguments->ticket, hooks)); });
}

}  // namespace gv
