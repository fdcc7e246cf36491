// Golden transcripts: what peers say and do in a few small scenes, line by line. They are
// documentation that cannot go stale.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "peer/config/config.hpp"
#include "peer/config/node_options.hpp"
#include "sim/scenario_text.hpp"
#include "sim/virtual/simulator.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "sim/virtual/trace.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

constexpr std::size_t stamp_width = 11;
const std::string begins = "# The trace begins at ";
const std::string divider = "# ---- trace ----\n";

std::string read(const std::filesystem::path& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The lines from `begins_s` seconds on. A line without a time belongs to the line before it.
std::string since(const std::string& said, double begins_s) {
  for (std::size_t at = 0; at < said.size(); at = said.find('\n', at) + 1) {
    if (said.compare(at, stamp_width, std::string(stamp_width, ' ')) == 0) continue;
    if (std::stod(said.substr(at, stamp_width)) >= begins_s) return said.substr(at);
  }
  return {};
}

/// Runs the config and scenario in `text` with seed 1, and returns the trace.
std::string play(const std::string& text, const std::string& name) {
  const ParsedConfig parsed = parse_config_text(text, name);
  const ParsedScenario scenario = parse_scenario_text(text, name, false);
  for (const auto* problems : {&parsed.problems, &scenario.problems}) {
    for (const Problem& problem : *problems) FAIL(to_string(problem));
  }
  const Scenario& given = scenario.scenario;
  REQUIRE(given.work == WorkKind::time);
  Layout layout;
  layout.add("x", {given.dimension});
  const std::uint64_t steps = parsed.config.run.steps > 0 ? parsed.config.run.steps : endless_steps;
  Simulator world({.peers = given.peers,
                   .scenario = given,
                   .node = node_options(parsed.config, {.layout = layout},
                                        {.steps = steps, .data = 1, .all_data = given.peers})},
                  [&](std::size_t peer) { return idle_workload(given.dimension, 1, peer); });
  std::string said;
  Trace trace([&](const std::string& line) { said += line + "\n"; }, Trace::Detail::story);
  world.watch(trace);
  world.run(Time(given.until));
  const std::size_t words = text.find(begins);
  return words == std::string::npos ? said
                                    : since(said, std::stod(text.substr(words + begins.size())));
}

}  // namespace

TEST_CASE("small scenes go as their transcripts say", "[sim][transcript]") {
  const std::string name = GENERATE(as<std::string>(), "join", "suspicion", "partition", "refusal",
                                    "half-exchange", "latecomer", "deal", "takeover", "finale");
  const std::filesystem::path path =
      std::filesystem::path(GRAPEVINE_SOURCE_DIR) / "tests/transcripts" / (name + ".txt");
  const std::string whole = read(path);
  const std::size_t cut = whole.find(divider);
  REQUIRE(whole.starts_with("# "));
  REQUIRE(cut != std::string::npos);
  const std::string scene = whole.substr(0, cut);
  const std::string said = play(scene, name);
  if (std::getenv("GRAPEVINE_REWRITE_TRANSCRIPTS") != nullptr) {
    std::ofstream(path) << scene << divider << said;
    return;
  }
  // To see what changed, set GRAPEVINE_REWRITE_TRANSCRIPTS=1 and read the diff.
  INFO(name);
  CHECK(said == whole.substr(cut + divider.size()));
}

}  // namespace gv
