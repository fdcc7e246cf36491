// `grapevine revoke`: revokes a peer's certificate in the whole swarm, permanently.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "cli/commands.hpp"
#include "peer/config/refusal.hpp"
#include "peer/host/peer_socket.hpp"
#include "peer/host/swarm_start.hpp"

namespace gv {

void add_revoke(CLI::App& app) {
  struct Arguments {
    std::string folder, name;
    bool with_invited = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  auto* command = app.add_subcommand("revoke", "Take a peer's certificate away");
  command->add_option("FOLDER", arguments->folder, "The run folder of a peer that may invite")
      ->required();
  command
      ->add_option("NAME", arguments->name, "The name of the peer, as status shows it, or its id")
      ->required();
  command->add_flag("--with-invited", arguments->with_invited,
                    "Revoke the peers that it has invited, too");
  command->footer("Example:\n  grapevine revoke grapevine-laptop old-server");
  command->callback([arguments] {
    if (arguments->name.empty()) {
      exit_with(fail({{"NAME", "is empty",
                       "give the name of the peer, as `grapevine status` shows it, or its id"}}));
    }
    const auto reply = ask_peer(
        arguments->folder,
        swarm_command_text({.revoke = arguments->name, .with_invited = arguments->with_invited}));
    const auto answer = nlohmann::json::parse(reply.value_or(""), nullptr, false);
    if (!answer.is_object()) {
      exit_with(fail({no_answer_problem(arguments->folder)}));
    }
    if (!answer.contains("revoked")) {
      fmt::print(stderr, "{}\n", answer.value("problem", "the peer has not answered"));
      exit_with(2);
    }
    fmt::print("{} is revoked; all peers cut their links with it as they hear of it\n",
               arguments->name);
    exit_with(0);
  });
}

}  // namespace gv
