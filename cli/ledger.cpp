// `grapevine ledger`: shows how much of a swarm's common work is done, and by which peer.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "cli/commands.hpp"
#include "peer/config/refusal.hpp"
#include "peer/host/ledger_view.hpp"

namespace gv {
namespace {

int show_ledger(const std::string& folder, bool as_json) {
  const auto document = document_in(folder);
  if (!document) {
    return fail({{folder, "no running peer answers here, and none has left a result",
                  "give the run folder of a peer, the one its first line names"}});
  }
  const Problems problems = ledger_problems(*document);
  if (!problems.empty()) return fail(problems);
  fmt::print("{}", as_json ? ledger_json(*document) : ledger_table(*document));
  return 0;
}

}  // namespace

void add_ledger(CLI::App& app) {
  struct Arguments {
    std::string folder;
    bool as_json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  auto* command =
      app.add_subcommand("ledger", "Show what the peers of a swarm have trained, and how often");
  command
      ->add_option("FOLDER", arguments->folder,
                   "The run folder of any of its peers, running or ended")
      ->required();
  command->add_flag("--json", arguments->as_json, "The same as one JSON document");
  command->footer("Example:\n  grapevine ledger runs/run-001/peer-0");
  command->callback([arguments] { exit_with(show_ledger(arguments->folder, arguments->as_json)); });
}

}  // namespace gv
