// `grapevine join`: joins a swarm with a ticket alone, without a config, key or peer list.
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "cli/commands.hpp"
#include "cli/ticket_options.hpp"
#include "peer/config/refusal.hpp"
#include "peer/host/swarm_start.hpp"

namespace gv {
namespace {

/// More bytes than any ticket has.
constexpr std::size_t ticket_bytes_max = 4096;

/// Reads the ticket from standard input, so that it does not appear in the process list, which
/// other users can read.
std::string ticket_from_input() {
  std::string text(ticket_bytes_max, '\0');
  std::size_t length = 0;
  for (int c = std::getchar(); length < text.size() && c != EOF && c != '\n';) {
    text[length++] = static_cast<char>(c);
    c = std::getchar();
  }
  text.resize(length);
  return text;
}

int join(const SwarmArguments& arguments, const std::string& given, const HostHooks& hooks) {
  const std::string ticket = given == "-" ? ticket_from_input() : given;
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
  arguments->inviter_is_silent = [has_said = false](const std::string& sentence) mutable {
    if (!std::exchange(has_said, true)) say(stderr, sentence + "\n");
  };
  auto* command = app.add_subcommand("join", "Join a swarm by a ticket, and train");
  command
      ->add_option("TICKET", arguments->ticket,
                   "What create or invite has printed; - reads it from standard input")
      ->required();
  add_peer_options(*command, *arguments, "grapevine-NAME");
  command->footer(
      "While the peer that made the ticket does not answer, join waits for it, until the ticket "
      "expires.\n"
      "Started again with the same folder, the peer goes on as itself and needs no new ticket.\n\n"
      "Example:\n  grapevine join gv1_...");
  command->callback([arguments, hooks] { exit_with(join(*arguments, arguments->ticket, hooks)); });
}

}  // namespace gv
