// Builds the search for shared layers from a config and a file of peers, and prints its plans.
#include "cli/shared_layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "cli/split_report.hpp"
#include "consensus/split/plan_search.hpp"
#include "peer/config/config.hpp"
#include "peer/config/group_problems.hpp"
#include "peer/config/peers_file.hpp"
#include "peer/config/refusal.hpp"
#include "peer/config/split_layers.hpp"
#include "peer/config/task.hpp"
#include "peer/config/toml.hpp"
#include "train/learner/group_place.hpp"
#include "train/optimizer.hpp"

namespace gv {
namespace {

/// With more peers than this, plans with stages are not searched for.
constexpr std::size_t staged_peers_max = 8;
/// The limit on the steps of all searches together (SearchBudget). This many take about three
/// seconds.
constexpr std::uint64_t search_steps_max = 300'000'000;
constexpr std::size_t stages_max = 8;
/// The largest power of two that is tried as a number of micro-batches. The config's own number is
/// tried, too.
constexpr std::size_t micro_batches_max = 16;

std::size_t samples_of(const Config& config) {
  const bool is_pipeline = config.run.mode == ModeKind::pipeline;
  return config.train.batch * (is_pipeline ? config.pipeline.micro_batches : config.run.peers);
}

SplitQuestion question_of(const Config& config, const std::vector<ModelPiece>& pieces,
                          SplitSite site, std::size_t samples) {
  SplitQuestion question{.site = std::move(site), .samples = samples};
  for (const ModelPiece& piece : pieces) question.layers.push_back(piece.costs);
  for (std::size_t m = 2; m <= micro_batches_max; m *= 2) {
    if (samples % m == 0) question.micro_batches.push_back(m);
  }
  const std::size_t own = config.pipeline.micro_batches;
  if (config.run.mode == ModeKind::pipeline && samples % own == 0 &&
      std::ranges::find(question.micro_batches, own) == question.micro_batches.end()) {
    question.micro_batches.push_back(own);
  }
  // Counts parameters, the gradients of a pass and of a step, and the optimiser's vectors. In a
  // pipeline every peer also keeps a copy of its own state and one of a neighbour's.
  const auto vectors = static_cast<double>(optimizer_vectors(config.train.optimizer));
  const double copies = config.pipeline.copy_every > 0 ? 2 : 0;
  question.bytes_per_weight = sizeof(float) * (3 + vectors);
  question.bytes_per_sliced_weight = sizeof(float) * (3 + vectors + copies * (1 + vectors));
  return question;
}

/// The pins of the site's peers.
std::vector<SplitPin> pins_in(const SplitSite& site, const NamedPins& pins) {
  std::vector<SplitPin> found;
  for (std::size_t i = 0; i < site.peers.size(); ++i) {
    const auto pin = pins.find(site.peers[i].name);
    if (pin != pins.end()) found.push_back({.peer = i, .at = pin->second});
  }
  return found;
}

/// Searches for all plans of a report within one budget of steps. The most important plans come
/// first, and each search gets a part of the steps that are left.
class ReportSearch {
 public:
  ReportSearch(const Config& config, SplitReport& report, std::size_t stages_max)
      : config_(config), report_(report), stages_max_(stages_max) {}

  /// Fills in the report. Returns the kinds of plans whose search was cut short.
  std::vector<std::string> run() {
    PlanSearch search(report_.question);
    report_.samples = best(search, "plans that share only samples", 0.3,
                           {.may_split_layers = false, .one_group = true});
    std::vector<SplitPlan> layers = best(search, "plans that share single layers", 0.4, {});
    if (!left_out_.empty()) {
      // Plans with a single group are few, and include the best ways to share samples.
      for (SplitPlan& plan : best(search, "", 0.4, {.one_group = true})) {
        keep_plan(layers, std::move(plan));
      }
    }
    if (report_.question.site.peers.size() > 1 && stages_max_ > 0) pipelines();
    report_.best = report_.stages;
    // The best plan overall may be a grouped pipeline, whose groups exchange nothing within a pair
    // of layers.
    for (const SplitPlan& plan : report_.groups) keep_plan(report_.best, plan);
    for (SplitPlan& plan : layers) keep_plan(report_.best, std::move(plan));
    if (stages_max_ < 2) return left_out_;
    for (SplitPlan& plan : best(search, "plans whose stages share layers in any way", 1,
                                {.stages_min = 2, .stages_max = stages_max_})) {
      keep_plan(report_.best, std::move(plan));
    }
    return left_out_;
  }

 private:
  /// Searches for the pipelines that the program can run, for each possible number of peers in a
  /// group.
  void pipelines() {
    SplitQuestion question = report_.question;
    question.micro_batches.push_back(1);
    PlanSearch search(question);
    report_.stages = best(search, "stages of whole layers", 0.4,
                          {.group = 1, .stages_min = 2, .stages_max = stages_max_});
    if (!group_problems(config_).empty()) return;
    const std::size_t most = std::min(question.site.peers.size(), slices_of_stage);
    for (std::size_t group = 2; group <= most; ++group) {
      const double part = 0.6 / static_cast<double>(most + 1 - group);
      for (SplitPlan& plan : best(search, fmt::format("groups of up to {} peers", group), part,
                                  {.group = group, .stages_max = stages_max_})) {
        keep_plan(report_.groups, std::move(plan));
      }
    }
  }

  std::vector<SplitPlan> best(PlanSearch& search, const std::string& what, double part,
                              const SplitChoice& choice) {
    SearchBudget budget = steps_.part(part);
    std::vector<SplitPlan> plans = search.best(choice, budget);
    steps_.take(budget.taken());
    if (budget.is_spent() && !what.empty()) left_out_.push_back(what);
    return plans;
  }

  const Config& config_;
  SplitReport& report_;
  std::size_t stages_max_;
  SearchBudget steps_{search_steps_max};
  std::vector<std::string> left_out_;
};

/// True if there are few enough peers to search for plans with stages.
bool may_have_stages(const SplitQuestion& question) {
  return question.site.peers.size() <= staged_peers_max;
}

/// Why there are no plans with stages, if may_have_stages() is false.
Problem no_stages(const SharedLayersOptions& options, const SplitQuestion& question) {
  return {options.peers_file,
          fmt::format("plans with stages or groups are not searched for, because this takes too "
                      "long for {} peers",
                      question.site.peers.size()),
          fmt::format("to see them, list at most {} peers", staged_peers_max)};
}

/// Says for which plans the search was cut short.
Problem cut_short(const SharedLayersOptions& options, const SplitQuestion& question,
                  const std::vector<std::string>& left_out) {
  return {
      options.peers_file,
      fmt::format("the search for {} layers with parameters and {} peers was cut short, and "
                  "there may be better plans of these kinds: {}",
                  question.layers.size(), question.site.peers.size(), fmt::join(left_out, ", ")),
      "to search all, list fewer peers"};
}

}  // namespace

int show_shared_layers(const SharedLayersOptions& options) {
  ParsedConfig parsed = parse_config_file(options.config, {});
  ParsedPeers peers = parse_peers_file(options.peers_file);
  Problems problems = std::move(parsed.problems);
  problems.insert(problems.end(), peers.problems.begin(), peers.problems.end());
  if (!problems.empty()) return fail(problems);
  const Task task = load_task(parsed.config, 0);
  if (!task.problems.empty()) return fail(parsed.places.placed(task.problems));
  Problems unread;
  SplitReport report{.config = options.config,
                     .config_text = read_text_file(options.config, "config", unread).value_or(""),
                     .schedule = parsed.config.pipeline.schedule,
                     .group = parsed.config.pipeline.group,
                     .peers_file = options.peers_file};
  report.pieces = model_pieces(task.trainer.model, task.shard->shape);
  report.question = question_of(parsed.config, report.pieces, std::move(peers.site),
                                options.samples > 0 ? options.samples : samples_of(parsed.config));
  const std::size_t count = report.question.site.peers.size();
  const bool has_stages = may_have_stages(report.question);
  const std::size_t most = has_stages ? std::min({count, report.pieces.size(), stages_max}) : 0;
  report.pins = parsed.config.pipeline.pins;
  report.question.pins = pins_in(report.question.site, report.pins);
  if (!has_stages) {
    // With pins, only plans with stages would be valid.
    if (!report.question.pins.empty()) return fail({no_stages(options, report.question)});
    print({no_stages(options, report.question)});
  }
  const std::vector<std::string> left_out = ReportSearch(parsed.config, report, most).run();
  if (!left_out.empty()) print({cut_short(options, report.question, left_out)});
  if (report.best.empty() && !left_out.empty()) return 2;
  if (report.best.empty() && !report.question.pins.empty()) {
    return fail({{parsed.places.place_of("pipeline.pins"),
                  fmt::format("no plan for the peers of {} fits them and has the pinned peers in "
                              "their stages",
                              options.peers_file),
                  "pin fewer peers, or to earlier stages"}});
  }
  if (report.best.empty()) {
    return fail({{options.peers_file,
                  "the model and its activations fit no peers of the file, "
                  "whatever part each of them takes",
                  "allow more memory_mb, or give fewer --samples"}});
  }
  fmt::print("{}", options.as_json ? to_json(report) : to_text(report));
  return 0;
}

}  // namespace gv
