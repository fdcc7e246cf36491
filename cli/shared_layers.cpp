// Builds the search for shared layers from a config and a file of peers, and prints its plans.
#include "cli/shared_layers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cli/split_report.hpp"
#include "consensus/split/split_plan.hpp"
#include "peer/config/config.hpp"
#include "peer/config/group_problems.hpp"
#include "peer/config/peers_file.hpp"
#include "peer/config/refusal.hpp"
#include "peer/config/split_layers.hpp"
#include "peer/config/task.hpp"
#include "train/learner/group_place.hpp"
#include "train/optimizer.hpp"

namespace gv {
namespace {

/// With more peers, or a larger product of layers and peers, searching for plans with stages takes
/// too long. At this product the search takes up to a minute, and a few minutes if memory is
/// limited. Twice as many layers take about six times as long.
constexpr std::size_t staged_peers_max = 8;
constexpr std::size_t staged_product_max = 256;
constexpr std::size_t stages_max = 8;
/// The largest number of micro-batches that is tried. All numbers tried are powers of two.
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

/// Searches pipelines as the program runs them, with each possible number of peers in a group.
void search_pipelines(const Config& config, std::size_t stages_max, SplitReport& report) {
  SplitQuestion question = report.question;
  question.micro_batches.push_back(1);
  report.stages = best_plans(question, {.group = 1, .stages_min = 2, .stages_max = stages_max});
  if (!group_problems(config).empty()) return;
  const std::size_t most = std::min(question.site.peers.size(), slices_of_stage);
  for (std::size_t group = 2; group <= most; ++group) {
    for (SplitPlan& plan : best_plans(question, {.group = group, .stages_max = stages_max})) {
      keep_plan(report.groups, std::move(plan));
    }
  }
}

/// True if the search for plans with stages does not take too long. A single peer has none.
bool may_have_stages(const SplitQuestion& question) {
  const std::size_t peers = question.site.peers.size();
  return peers == 1 ||
         (peers <= staged_peers_max && peers * question.layers.size() <= staged_product_max);
}

/// Why there are no plans with stages, if may_have_stages() is false.
Problem no_stages(const SharedLayersOptions& options, const SplitQuestion& question) {
  const std::size_t layers = question.layers.size();
  const std::size_t peers_max = std::min(staged_peers_max, staged_product_max / layers);
  return {options.peers_file,
          fmt::format("plans with stages or groups are not searched for, because this takes too "
                      "long for {} layers with parameters and {} peers",
                      layers, question.site.peers.size()),
          peers_max > 1
              ? fmt::format("to see them, list at most {} peers", peers_max)
              : fmt::format("to see them, take at most {} such layers", staged_product_max / 2)};
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
  SplitReport report{.config = options.config, .peers_file = options.peers_file};
  report.pieces = model_pieces(task.trainer.model, task.shard->shape);
  report.question = question_of(parsed.config, report.pieces, std::move(peers.site),
                                options.samples > 0 ? options.samples : samples_of(parsed.config));
  const std::size_t count = report.question.site.peers.size();
  const bool has_stages = may_have_stages(report.question);
  const std::size_t most = has_stages ? std::min({count, report.pieces.size(), stages_max}) : 1;
  report.pins = parsed.config.pipeline.pins;
  report.question.pins = pins_in(report.question.site, report.pins);
  if (!has_stages) {
    // Pins rule out all other plans.
    if (!report.question.pins.empty()) return fail({no_stages(options, report.question)});
    print({no_stages(options, report.question)});
  }
  report.samples = best_plans(report.question, {.may_split_layers = false, .one_group = true});
  if (count > 1 && has_stages) search_pipelines(parsed.config, most, report);
  // The best plan overall may be a grouped pipeline, whose groups exchange nothing within a pair of
  // layers.
  report.best = report.stages;
  for (const SplitPlan& plan : report.groups) keep_plan(report.best, plan);
  for (const SplitPlan& plan : best_plans(report.question, {.stages_max = most})) {
    keep_plan(report.best, plan);
  }
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
