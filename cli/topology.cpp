// `grapevine topology`: shows which peers mix with which, and how fast their models converge.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "cli/topology_picture.hpp"
#include "cli/topology_text.hpp"
#include "consensus/topology/pairs.hpp"
#include "peer/config/refusal.hpp"
#include "peer/config/toml.hpp"

namespace gv {
namespace {

/// Arguments of `grapevine topology`. Without a name, the command shows all kinds.
struct TopologyArguments {
  std::string name;
  TopologyQuestion question;
  std::string svg;
};

Problems read_name(const std::string& name, Topology& topology) {
  const auto kind = topology_names.find(name);
  if (kind) {
    topology.kind = *kind;
    return {};
  }
  std::vector<std::string> names;
  std::string all;
  for (const TopologyKind known : topology_kinds) {
    names.emplace_back(to_string(known));
    all += (all.empty() ? "" : ", ") + names.back();
  }
  const auto nearest = nearest_name(name, names);
  return {
      {name, "no such topology",
       nearest ? fmt::format("the nearest is {}, of {}", *nearest, all) : "write one of " + all}};
}

int show_topology(TopologyArguments arguments) {
  TopologyQuestion& question = arguments.question;
  if (arguments.name.empty()) {
    if (!arguments.svg.empty() || question.in_pairs) {
      return fail({{arguments.svg.empty() ? "--pairs" : "--svg", "that is of one topology",
                    "name it, as in grapevine topology ring"}});
    }
    fmt::print("{}", topology_table(question.peers, question.seed));
    return 0;
  }
  if (const Problems problems = read_name(arguments.name, question.topology); !problems.empty()) {
    return fail(problems);
  }
  if (const auto problem = problem_of(question.topology, question.peers)) return fail({*problem});
  const auto not_in_pairs = problem_with_pairs(question.topology);
  if (question.in_pairs && not_in_pairs) return fail({*not_in_pairs});
  fmt::print("{}", topology_report(question));
  if (arguments.svg.empty()) return 0;
  std::ofstream file(arguments.svg);
  file << topology_svg(question);
  file.close();
  if (!file) {
    return fail({{arguments.svg, "cannot be written", "name a file in a folder that is there"}});
  }
  fmt::print("\na picture of that is in {}\n", arguments.svg);
  return 0;
}

}  // namespace

void add_topology(CLI::App& app) {
  const auto arguments = std::make_shared<TopologyArguments>();
  auto* command = app.add_subcommand("topology", "Show who mixes with whom, and how fast that is");
  Topology& topology = arguments->question.topology;
  command->add_option("NAME", arguments->name, "As in gossip.topology; without it a table of all");
  command->add_option("-n,--peers", arguments->question.peers, "Number of peers")
      ->capture_default_str()
      ->check(CLI::Range(std::size_t{1}, topology_peers_max));
  command
      ->add_option("--rounds", arguments->question.rounds,
                   "How many rounds to show; default: those until they begin again, at most 8")
      ->check(CLI::Range(1, 64));
  command->add_option("--svg", arguments->svg, "A file for a picture of those rounds");
  command->add_flag("--pairs", arguments->question.in_pairs,
                    "The exchanges of two that gossip makes of it, not the mixing matrices");
  command
      ->add_option("--degree", topology.degree,
                   "random_regular: neighbours of each, default 4; base_k: k, the most partners "
                   "in a round, default 1")
      ->check(CLI::Range(1, 1024));
  command
      ->add_option("--dimensions", topology.dimensions, "moshpit: number of dimensions of the grid")
      ->capture_default_str()
      ->check(CLI::Range(1, 10));
  command->add_flag("--lazy", topology.lazy, "Everybody keeps half of its model: (I + W) / 2");
  command->add_option("--seed", arguments->question.seed, "The seed of what is drawn")
      ->check(not_a_whole_number)
      ->capture_default_str();
  command
      ->add_option("--parameters", arguments->question.parameters,
                   "Numbers in the model, for the bytes that travel")
      ->capture_default_str()
      ->check(number_from(1.0, 1e15));
  command->footer(
      "Example:\n  grapevine topology -n 64\n  grapevine topology base_k -n 5\n"
      "  grapevine topology ring -n 12 --pairs --rounds 4 --svg ring.svg");
  command->callback([arguments] { exit_with(show_topology(*arguments)); });
}

}  // namespace gv
