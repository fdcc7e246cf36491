// `grapevine env`: says which engine started this process, and how that is known.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "cli/commands.hpp"
#include "peer/config/refusal.hpp"
#include "peer/host/engines.hpp"

namespace gv {
namespace {

struct EnvArguments {
  std::optional<std::size_t> rank;
  std::optional<std::size_t> ranks;
  bool as_json = false;
};

/// A rank and the number of ranks as text, for example "3 of 16". A question mark replaces an
/// unknown number.
std::string place_text(std::optional<std::size_t> rank, std::optional<std::size_t> ranks) {
  const auto text = [](std::optional<std::size_t> number) {
    return number ? std::to_string(*number) : std::string("?");
  };
  return text(rank) + " of " + text(ranks);
}

std::string reading_text(const EngineReading& reading, bool is_chosen) {
  std::string text =
      fmt::format("{:24} rank {}{}\n", reading.engine, place_text(reading.rank, reading.ranks),
                  is_chosen ? "" : ", passed over");
  for (const auto& [name, value] : reading.variables) {
    text += fmt::format("  {}={}\n", name, value);
  }
  for (const std::string& name : reading.unset) text += fmt::format("  {} is not set\n", name);
  if (!reading.host.empty()) text += fmt::format("  rank 0 is at {}\n", reading.host);
  return text;
}

nlohmann::ordered_json reading_json(const EngineReading& reading, bool is_chosen) {
  nlohmann::ordered_json json{{"engine", reading.engine}, {"counts", is_chosen}};
  if (reading.rank) json["rank"] = *reading.rank;
  if (reading.ranks) json["ranks"] = *reading.ranks;
  if (!reading.host.empty()) json["host"] = reading.host;
  json["set"] = nlohmann::ordered_json::object();
  for (const auto& [name, value] : reading.variables) json["set"][name] = value;
  json["unset"] = reading.unset;
  return json;
}

/// The table of engines, with the variables by which each is recognised.
std::string engines_table() {
  std::string text = "no engine has started this process; it would show in these variables\n";
  for (const Engine& engine : engines()) {
    text += fmt::format("  {:24} {}{}{}\n", engine.name, engine.rank,
                        engine.ranks.empty() ? "" : ", ", engine.ranks);
  }
  return text;
}

int env(const EnvArguments& arguments) {
  const std::vector<EngineReading> readings = read_engines(own_variables());
  const EngineReading* counts = chosen(readings);
  CohortPlace place;
  const Problems problems = find_place(readings, arguments.rank, arguments.ranks, place);
  if (arguments.as_json) {
    nlohmann::ordered_json json;
    if (problems.empty()) json = {{"rank", place.rank}, {"ranks", place.ranks}};
    json["engines"] = nlohmann::ordered_json::array();
    for (const EngineReading& reading : readings) {
      json["engines"].push_back(reading_json(reading, &reading == counts));
    }
    json["problems"] = nlohmann::ordered_json::array();
    for (const Problem& problem : problems) json["problems"].push_back(to_string(problem));
    fmt::print("{}\n", json.dump(1));
    return problems.empty() ? 0 : 2;
  }
  if (readings.empty()) fmt::print("{}", engines_table());
  for (const EngineReading& reading : readings) {
    fmt::print("{}", reading_text(reading, &reading == counts));
  }
  if (!problems.empty()) return fail(problems);
  fmt::print("with --cohort this is rank {}\n", place_text(place.rank, place.ranks));
  return 0;
}

}  // namespace

void add_env(CLI::App& app) {
  const auto arguments = std::make_shared<EnvArguments>();
  auto* command = app.add_subcommand(
      "env", "Say which rank of a cohort this process is, and how that is known");
  command->add_option("--rank", arguments->rank, "Rank, whatever the engine says")
      ->check(not_a_whole_number);
  command->add_option("--ranks", arguments->ranks, "Number of ranks, whatever the engine says")
      ->check(not_a_whole_number);
  command->add_flag("--json", arguments->as_json, "The same as JSON");
  command->footer("Example:\n  srun -n 2 grapevine env");
  command->callback([arguments] { exit_with(env(*arguments)); });
}

}  // namespace gv
