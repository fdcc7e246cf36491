// `grapevine algorithms`: the published algorithms that have names.
#include "peer/config/algorithms.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "cli/algorithm_text.hpp"
#include "cli/commands.hpp"
#include "cli/topology_text.hpp"
#include "peer/config/refusal.hpp"
#include "peer/config/toml.hpp"

namespace gv {
namespace {

int show_algorithms(const std::string& name, std::size_t peers, double parameters) {
  if (name.empty()) {
    fmt::print("{}", algorithms_table());
    return 0;
  }
  if (named_algorithm(name) == nullptr) {
    std::vector<std::string> names;
    for (const NamedAlgorithm& known : named_algorithms()) names.emplace_back(known.name);
    return fail({{name, "no such algorithm",
                  fmt::format("the nearest is {}; `grapevine algorithms` lists all",
                              nearest_name(name, names).value_or(""))}});
  }
  fmt::print("{}", algorithm_report(name, peers, parameters));
  return 0;
}

}  // namespace

void add_algorithms(CLI::App& app) {
  struct Arguments {
    std::string name;
    std::size_t peers = 8;
    double parameters = 1e6;
  };
  const auto arguments = std::make_shared<Arguments>();
  auto* command = app.add_subcommand("algorithms", "List the published algorithms that have names");
  command->add_option("NAME", arguments->name, "Show its settings and what it costs");
  command->add_option("-n,--peers", arguments->peers, "Number of peers")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, topology_peers_max));
  command
      ->add_option("--parameters", arguments->parameters,
                   "Numbers in the model, for the bytes that travel")
      ->capture_default_str()
      ->check(CLI::Range(1.0, 1e9));
  command->footer("Example:\n  grapevine algorithms\n  grapevine algorithms choco -n 16");
  command->callback([arguments] {
    exit_with(show_algorithms(arguments->name, arguments->peers, arguments->parameters));
  });
}

}  // namespace gv
