// `grapevine explain`: says what an event, a refusal's reason or an exit code means, and what to
// do.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/explanations.hpp"
#include "peer/config/refusal.hpp"

namespace gv {
namespace {

int explain(const std::string& name, bool as_json) {
  if (name.empty()) {
    fmt::print("{}", as_json ? to_json(explanations()) : explanations_table());
    return 0;
  }
  const Explanation* const found = find_explanation(name);
  if (found == nullptr) {
    return fail({{name, "no event, reason or exit code has this name",
                  fmt::format("the nearest are {}; `grapevine explain` lists all",
                              fmt::join(near_explanations(name), ", "))}});
  }
  fmt::print("{}", as_json ? to_json(std::span(found, 1)) : to_text(*found));
  return 0;
}

}  // namespace

void add_explain(CLI::App& app) {
  struct Arguments {
    std::vector<std::string> name;
    bool as_json = false;
  };
  const auto arguments = std::make_shared<Arguments>();
  auto* command =
      app.add_subcommand("explain", "Say what an event, a refusal or an exit code means");
  command->add_option("NAME", arguments->name,
                      "An event of events.jsonl, the reason of a refusal, or exit-CODE; without "
                      "it all are listed");
  command->add_flag("--json", arguments->as_json, "The same as a JSON array");
  command->footer(
      "Example:\n  grapevine explain exchange_refused\n  grapevine explain not ready\n"
      "  grapevine explain exit-2");
  command->callback([arguments] {
    exit_with(explain(fmt::format("{}", fmt::join(arguments->name, " ")), arguments->as_json));
  });
}

}  // namespace gv
