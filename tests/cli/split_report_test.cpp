// The settings that a plan prints, written into the configs that come with the program.
#include "cli/split_report.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "cli/split_report_settings.hpp"
#include "peer/config/config.hpp"
#include "peer/config/peers_file.hpp"
#include "peer/config/toml.hpp"

namespace gv {
namespace {

namespace fs = std::filesystem;

const std::string configs = std::string(GRAPEVINE_SOURCE_DIR) + "/configs";

/// Three equally wide layers, and three peers of which one is slow.
SplitReport small_report(const std::string& text) {
  SplitReport report{.config = configs + "/planned.toml", .config_text = text};
  const Config config = parse_config_text(text, report.config).config;
  report.schedule = config.pipeline.schedule;
  report.group = config.pipeline.group;
  for (std::size_t i = 0; i < 3; ++i) {
    SplitLayer layer{.name = "dense", .operations = 1e6, .weights = 1e6};
    layer.inputs = layer.outputs = 1000;
    report.pieces.push_back({.first = 2 * i, .end = 2 * i + 2, .costs = layer});
    report.question.layers.push_back(layer);
  }
  report.pieces.back().end = 5;
  report.question.samples = 64;
  report.question.micro_batches = {4};
  report.question.site.peers = {{"desk", 4e9, 0}, {"board", 1e9, 0}, {"tower", 4e9, 0}};
  report.question.site.links.assign(3, std::vector<SplitLink>(3, {1e-4, 1e9}));
  return report;
}

/// The report's two kinds of plans that the program can run.
std::vector<SplitPlan> plans_of(const SplitReport& report) {
  std::vector<SplitPlan> plans =
      best_plans(report.question, {.group = 1, .stages_min = 2, .stages_max = 2});
  const SplitChoice samples{.may_split_layers = false, .one_group = true};
  for (SplitPlan& plan : best_plans(report.question, samples)) plans.push_back(std::move(plan));
  return plans;
}

std::string small_config(const std::string& pipeline) {
  return "[run]\nmode = \"pipeline\"\npeers = 3\nsteps = 10\n[data]\nkind = \"generated\"\n"
         "[model]\nkind = \"mlp\"\nhidden = [32, 16]\n[pipeline]\n" +
         pipeline;
}

bool has(const std::vector<std::string>& list, const std::string& what) {
  return std::ranges::find(list, what) != list.end();
}

}  // namespace

TEST_CASE("the settings of a plan are accepted in every config that comes with the program") {
  std::size_t checked = 0;
  for (const auto& entry : fs::directory_iterator(configs)) {
    if (entry.path().extension() != ".toml") continue;
    Problems problems;
    const auto text = read_text_file(entry.path().string(), "config", problems);
    REQUIRE(text);
    SplitReport report = small_report(*text);
    const ParsedConfig parsed = parse_config_text(*text, report.config);
    // Data may be missing on this machine, and k-means has no gradients to plan for.
    if (!parsed.problems.empty()) continue;
    for (const SplitPlan& plan : plans_of(report)) {
      const PlannedSettings settings = planned_settings(report, plan);
      INFO(entry.path() << "\n" << settings.text);
      const bool can_learn = parsed.config.run.mode == ModeKind::pipeline ||
                             parsed.config.run.mode == ModeKind::allreduce;
      for (const Problem& problem : settings.problems) {
        INFO(to_string(problem));
        CHECK_FALSE(can_learn);
      }
      if (settings.problems.empty()) ++checked;
    }
  }
  CHECK(checked > 8);
}

TEST_CASE("settings of a config that a plan cannot have are named") {
  const SplitReport report = small_report(small_config("stages = 2\nmemory_mb = 100\n"));
  const PlannedSettings settings = planned_settings(report, plans_of(report).front());
  INFO(settings.text);
  CHECK(settings.problems.empty());
  CHECK(has(settings.removed, "pipeline.memory_mb"));
}

TEST_CASE("a plan is printed with the schedule for which it is made") {
  const SplitReport report =
      small_report(small_config("stages = 2\nschedule = \"chimera\"\nmicro_batches = 4\n"));
  const PlannedSettings settings = planned_settings(report, plans_of(report).front());
  INFO(settings.text);
  CHECK(settings.text.find("schedule = \"1f1b\"\n") != std::string::npos);
  CHECK(settings.problems.empty());
}

TEST_CASE("a batch that the peers cannot divide is rounded up") {
  SplitReport report = small_report(small_config(""));
  report.question.samples = 7;
  report.question.site.links.assign(3, std::vector<SplitLink>(3));
  const SplitPlan plan =
      best_plans(report.question, {.may_split_layers = false, .one_group = true}).front();
  REQUIRE(plan.uses(2));
  const std::size_t peers = plan.uses(1) ? 3 : 2;
  const std::string batch = "batch = " + std::to_string((7 + peers - 1) / peers) + "\n";
  CHECK(planned_settings(report, plan).text.find(batch) != std::string::npos);
}

TEST_CASE("a plan can be run only if a plan of the program is as fast") {
  SplitReport report = small_report(small_config(""));
  const SplitPlan plan = plans_of(report).front();
  report.best = {plan};
  CHECK_FALSE(can_run(report, plan));
  report.stages = {plan};
  CHECK(can_run(report, plan));
  report.stages.front().seconds *= 1.01;
  CHECK_FALSE(can_run(report, plan));
  CHECK(to_json(report).find("\"can_run\": false") != std::string::npos);
}

}  // namespace gv
