// `grapevine algorithms`: lists the algorithms that have names, or describes one with its cost.
#include "peer/config/algorithms.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/commands.hpp"
#include "cli/topology_text.hpp"
#include "consensus/allreduce/reduce_plan.hpp"
#include "consensus/mixing/mixer.hpp"
#include "peer/config/config.hpp"
#include "peer/config/refusal.hpp"
#include "peer/config/toml.hpp"

namespace gv {
namespace {

Config config_of(const NamedAlgorithm& algorithm) {
  return parse_config_text(fmt::format("run.algorithm = \"{}\"", algorithm.name), "algorithm")
      .config;
}

/// Describes what a mixing round costs a peer: means over all peers and a few rounds.
std::string costs(const MixingConfig& rounds, std::size_t peers, double parameters) {
  const RoundPlan plan(rounds.rule, peers, 1);
  constexpr std::uint64_t sampled = 8;
  double messages = 0;
  double bytes = 0;
  for (std::uint64_t round = 1; round <= sampled; ++round) {
    double sent = 0;
    for (const auto& row : plan.round(round)) sent += static_cast<double>(row.size());
    sent /= static_cast<double>(peers) * sampled;
    messages += sent;
    bytes += sent * static_cast<double>(mix_message_bytes<float>(
                        rounds.rule, static_cast<std::size_t>(parameters), round));
  }
  return fmt::format(
      "a round      {} local steps, then {:.3g} messages and {:.4g} MB sent by each of {} peers\n"
      "keeps        {} vectors as long as the model beside it{}\n",
      rounds.period_steps, messages, bytes / 1e6, peers, traits_of(rounds.rule).vectors,
      traits_of(rounds.rule).keeps_copies ? ", and one for each neighbour" : "");
}

/// Describes what a sum of all gradients costs, with one line for each all-reduce algorithm.
std::string sum_costs(std::size_t peers, double parameters) {
  std::string text =
      fmt::format("a sum over {} peers by each allreduce.algorithm, means of peers\n", peers);
  for (const ReduceAlgorithm algorithm : reduce_algorithms()) {
    const ReduceCost cost = reduce_cost(algorithm, peers, static_cast<std::size_t>(parameters));
    text += fmt::format("  {:<18} {:>3} rounds, {:>4.3g} messages and {:>5.4g} MB sent\n",
                        to_string(algorithm), cost.rounds, cost.messages, cost.mean_bytes / 1e6);
  }
  return text;
}

/// A table with one line for each algorithm, grouped by family.
std::string algorithms_table() {
  std::string text;
  std::string_view family;
  for (const NamedAlgorithm& algorithm : named_algorithms()) {
    if (algorithm.family != family) {
      text += fmt::format("{}{}\n", family.empty() ? "" : "\n", algorithm.family);
      family = algorithm.family;
    }
    text += fmt::format("  {:<18} {:<7} {}{}\n", algorithm.name,
                        to_string(config_of(algorithm).run.mode), algorithm.what,
                        algorithm.source.empty() ? "" : fmt::format(" ({})", algorithm.source));
  }
  return text +
         "\nin a config: [run] algorithm = \"NAME\"; `grapevine algorithms NAME` says more\n";
}

/// Describes one algorithm, which must exist: its settings as in a config, and a peer's memory and
/// traffic with `peers` peers and a model of `parameters` numbers. If the algorithm does not fit
/// that number of peers, the text says why.
std::string algorithm_report(std::string_view name, std::size_t peers, double parameters) {
  const NamedAlgorithm& algorithm = *named_algorithm(name);
  const Config config = config_of(algorithm);
  std::string text = fmt::format(
      "{}: {}{}\n\n{}\n", algorithm.name, algorithm.what,
      algorithm.source.empty() ? "" : fmt::format(" ({})", algorithm.source), algorithm.settings);
  if (config.run.mode == ModeKind::mixing) {
    const Problems problems = problems_of(config.mixing.rule, peers);
    for (const Problem& problem : problems) {
      text += fmt::format("{} peers: {}; {}\n", peers, problem.reason, problem.remedy);
    }
    if (problems.empty()) text += costs(config.mixing, peers, parameters);
  }
  // Exact-mean algorithms sum complete gradients. The other families compress them and send fewer
  // bytes.
  if (config.run.mode == ModeKind::allreduce && algorithm.family == "exact-mean") {
    text += sum_costs(peers, parameters);
  }
  return text + fmt::format("more in docs/algorithms/{}.md\n", algorithm.family);
}

int show_algorithms(const std::string& name, std::size_t peers, double parameters) {
  if (name.empty()) {
    fmt::print("{}", algorithms_table());
    return 0;
  }
  if (named_algorithm(name) == nullptr) {
    std::vector<std::string> names;
    for (const NamedAlgorithm& known : named_algorithms()) names.emplace_back(known.name);
    const auto nearest = nearest_name(name, names);
    return fail({{name, "no such algorithm",
                  (nearest ? "the nearest is " + *nearest + "; " : "") +
                      "`grapevine algorithms` lists all"}});
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
      ->check(number_from(1.0, 1e9));
  command->footer("Example:\n  grapevine algorithms\n  grapevine algorithms choco -n 16");
  command->callback([arguments] {
    exit_with(show_algorithms(arguments->name, arguments->peers, arguments->parameters));
  });
}

}  // namespace gv
