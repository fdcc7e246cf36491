// `grapevine status`: shows the state of a running peer.
#include "peer/host/status.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "peer/config/refusal.hpp"
#include "peer/host/peer_socket.hpp"

namespace gv {
namespace {

int status(const std::string& folder, bool as_json) {
  const auto document = ask_peer(folder);
  if (!document) return fail({no_answer_problem(folder)});
  fmt::print("{}", as_json ? *document + "\n" : status_table(*document));
  return 0;
}

}  // namespace

void add_status(CLI::App& app) {
  struct Arguments {
    std::string folder;
    bool as_json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  auto* command = app.add_subcommand("status", "Show what a running peer knows");
  command->add_option("FOLDER", arguments->folder, "The peer's run folder")->required();
  command->add_flag("--json", arguments->as_json, "The whole document as JSON");
  command->footer("Example:\n  grapevine status runs/run-001/peer-0");
  command->callback([arguments] { exit_with(status(arguments->folder, arguments->as_json)); });
}

}  // namespace gv
