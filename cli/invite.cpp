// `grapevine invite`: gets another ticket from a running peer that may invite others.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "cli/ticket_options.hpp"
#include "peer/config/refusal.hpp"
#include "peer/host/peer_socket.hpp"
#include "peer/host/swarm_start.hpp"

namespace gv {

void add_invite(CLI::App& app) {
  struct Arguments {
    std::string folder;
    TicketTerms terms;
  };
  const auto arguments = std::make_shared<Arguments>();
  auto* command = app.add_subcommand("invite", "Make a ticket at a running peer");
  command->add_option("FOLDER", arguments->folder, "The peer's run folder")->required();
  add_ticket_options(*command, arguments->terms);
  command->footer(
      "The ticket works only while this peer runs. Any peer that may invite can make one.\n\n"
      "Example:\n  grapevine invite grapevine-laptop --uses 3 --valid 86400");
  command->callback([arguments] {
    const auto reply =
        ask_peer(arguments->folder, swarm_command_text({.invite = arguments->terms}));
    const InviteAnswer answer = read_invite_answer(reply.value_or(""));
    if (!answer.problem.empty()) {
      fmt::print(stderr, "{}\n", answer.problem);
      exit_with(2);
    }
    if (answer.ticket.empty()) {
      exit_with(fail({no_answer_problem(arguments->folder)}));
    }
    fmt::print("{}\n", answer.ticket);
    exit_with(0);
  });
}

}  // namespace gv
