// `grapevine plan`: compares ways to cut a model into stages, and predicts and measures a step's
// time.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/counted.hpp"
#include "cli/commands.hpp"
#include "cli/pins.hpp"
#include "cli/shared_layers.hpp"
#include "consensus/pipeline/picture.hpp"
#include "consensus/pipeline/router.hpp"
#include "consensus/pipeline/stage_plan.hpp"
#include "peer/config/config.hpp"
#include "peer/config/refusal.hpp"
#include "peer/config/task.hpp"
#include "peer/host/stage_profile.hpp"

namespace gv {
namespace {

struct PlanOptions {
  std::string config;
  /// The user's text: a number, or a file that describes the peers. Empty: the config's number.
  std::string peers_text;
  std::size_t samples = 0;  ///< Samples in a step, for a file of peers; 0: the config's number.
  bool as_json = false;     ///< Print JSON. Needs a file of peers.
  std::size_t peers = 0;    ///< Number of peers; 0: the config's number.
  /// Speeds of the peers relative to this machine. Empty: all are as fast as this machine.
  std::vector<double> speeds;
  std::string svg;  ///< File for the picture. Empty means none.
  /// Bandwidth of each link in each direction; 0 means that sending takes no time.
  double bandwidth_mbit = 0;
  double latency_ms = 0;
  double seconds = 8;  ///< Approximate total time for measurements.
};

/// A cut is recommended if it shortens the step by more than this fraction.
constexpr double worth_a_line = 0.15;
/// With more peers than this, searching for cuts takes too long. If the peers' speeds differ, their
/// order is searched too, so the limit is lower.
constexpr std::size_t searched_peers_max = 16;
constexpr std::size_t ordered_peers_max = 8;
/// The largest number of peers that can be planned for.
constexpr std::size_t peers_max = 256;

double ms(double seconds) { return 1e3 * seconds; }

/// A cut of the model, the peers that compute its stages, and the time of a step.
struct Plan {
  StagesSpec spec;
  std::vector<StageProfile> stages;
  std::vector<std::vector<std::uint32_t>> carriers;   ///< The peers that compute each stage.
  std::vector<std::vector<std::uint32_t>> stages_of;  ///< The stages of each peer.
  PipelineSchedule schedule;
  PipelineCosts costs;
  PipelineTiming predicted;
  Problems problems;
};

/// Everything that a plan depends on, except the cut.
struct Question {
  const PlanOptions& options;
  const Config& config;
  const Task& task;

  const PipelineConfig& pipeline() const { return config.pipeline; }
  std::size_t peers() const { return config.run.peers; }
  std::vector<double> speeds() const {
    return options.speeds.empty() ? std::vector<double>(peers(), 1.0) : options.speeds;
  }
  double seconds_per_byte() const {
    return options.bandwidth_mbit > 0 ? 8 / (1e6 * options.bandwidth_mbit) : 0;
  }
};

/// The estimated operations of each stage, by which a swarm assigns stages to peers.
std::vector<double> work_shares(const StagesSpec& spec, SampleShape shape) {
  const std::vector<LayerWork> work = layer_work(spec.trainer.model, shape);
  std::vector<double> shares;
  std::size_t layer = 0;
  for (const std::size_t end : spec.ends) {
    shares.push_back(0);
    for (; layer < end; ++layer) shares.back() += work[layer].operations;
  }
  return shares;
}

/// Assigns the plan's stages to peers as a swarm does once it knows its peers' speeds.
void map_peers(const Question& question, Plan& plan) {
  std::vector<StageOffer> offers;
  const std::vector<double> speeds = question.speeds();
  const StagePlanOptions options{
      .mirrored = question.pipeline().schedule == PipelineKind::chimera,
      .pins = pins_of_numbered(question.pipeline().pins, question.peers())};
  for (std::size_t i = 0; i < question.peers(); ++i) {
    offers.push_back({.peer = PeerId{i + 1}, .speed = speeds[i], .holdings = {{0, false, {}}}});
  }
  const std::vector<double> shares = work_shares(plan.spec, question.task.shard->shape);
  auto mapped = plan_stages(offers, shares, options);
  // A swarm makes at most one change per ballot, so repeat until nothing changes.
  std::optional<StagePlan> before;
  for (std::size_t ballot = 0;
       ballot < question.peers() && (!before || before->assignments != mapped->assignments);
       ++ballot) {
    before = mapped;
    for (StageOffer& offer : offers) offer.holdings = {{0, false, {}}};
    for (const StageAssignment& assignment : mapped->assignments) {
      offers[static_cast<std::uint64_t>(assignment.carrier) - 1].holdings.push_back(
          {assignment.stage, true, {}});
    }
    mapped = plan_stages(offers, shares, options);
  }
  plan.carriers.resize(plan.spec.ends.size());
  plan.stages_of.resize(question.peers());
  for (const StageAssignment& assignment : mapped->assignments) {
    const auto peer =
        static_cast<std::uint32_t>(static_cast<std::uint64_t>(assignment.carrier) - 1);
    plan.carriers[assignment.stage].push_back(peer);
    plan.stages_of[peer].push_back(assignment.stage);
  }
  for (auto& carriers : plan.carriers) std::ranges::sort(carriers);
}

Plan make_plan(const Question& question, std::vector<std::size_t> ends, double seconds) {
  const PipelineConfig& pipeline = question.pipeline();
  Plan plan{.spec = *question.task.stages};
  plan.spec.ends = std::move(ends);
  plan.spec.slices = 0;  // The profile measures stages that no group shares.
  map_peers(question, plan);
  const std::vector<double> speeds = question.speeds();
  const Routes routes =
      make_routes(pipeline.schedule, pipeline.router, plan.carriers, pipeline.micro_batches, speeds,
                  Rng(question.config.run.seed).fork("routes").fork(0));
  plan.problems = problems(pipeline.schedule, routes, question.peers(), pipeline.accumulate);
  if (!plan.problems.empty()) return plan;
  plan.schedule = make_schedule(pipeline.schedule, routes, question.peers(), pipeline.accumulate,
                                pipeline.ahead);
  plan.stages = profile_stages(plan.spec, question.task.shard,
                               pipeline.schedule == PipelineKind::zero_bubble, seconds);
  for (const StageProfile& stage : plan.stages) {
    plan.costs.stages.push_back(stage.cost);
    plan.costs.boundaries.push_back({.seconds = stage.forward_bytes * question.seconds_per_byte(),
                                     .latency_s = 1e-3 * question.options.latency_ms});
  }
  plan.costs.speeds = speeds;
  plan.predicted = replay(plan.schedule, plan.costs);
  return plan;
}

// ---- Cuts from the profile ----

/// Merges every layer without parameters into the layer before it, so that every stage has
/// parameters. A first layer without parameters is merged into the next one.
std::vector<LayerProfile> with_parameters(const std::vector<LayerProfile>& layers) {
  std::vector<LayerProfile> joined;
  for (const LayerProfile& layer : layers) {
    if (joined.empty() || (layer.parameters > 0 && joined.back().parameters > 0)) {
      joined.push_back(layer);
      continue;
    }
    LayerProfile& last = joined.back();
    last.end = layer.end;
    last.parameters += layer.parameters;
    last.forward_s += layer.forward_s;
    last.backward_input_s += layer.backward_input_s;
    last.backward_weight_s += layer.backward_weight_s;
    last.output_bytes = layer.output_bytes;
  }
  return joined;
}

std::optional<std::vector<std::size_t>> cut_of(const Question& question,
                                               const std::vector<LayerProfile>& layers,
                                               const std::vector<double>& speeds) {
  std::vector<LayerCost> costs;
  for (const LayerProfile& layer : layers) {
    costs.push_back({.forward_s = layer.forward_s,
                     .backward_s = layer.backward_input_s + layer.backward_weight_s,
                     .output_bytes = layer.output_bytes});
  }
  const std::size_t peers = speeds.size();
  PipelineSite site{.speeds = speeds};
  if (question.seconds_per_byte() > 0) {
    site.seconds_per_byte.assign(peers, std::vector<double>(peers, question.seconds_per_byte()));
  }
  const PartitionOptions options{.stages = question.task.stages->ends.size(),
                                 .kind = question.pipeline().schedule,
                                 .micro_batches = question.pipeline().micro_batches,
                                 .recomputes = question.config.pipeline.recompute};
  const bool alike = std::ranges::count(speeds, speeds.front()) == std::ssize(speeds);
  if (!alike && peers <= ordered_peers_max) {
    const auto ordered = best_partition(costs, site, options);
    return ordered ? std::optional(ends_of(ordered->partition, layers)) : std::nullopt;
  }
  const auto partition = partition_stages(costs, site, options);
  return partition ? std::optional(ends_of(*partition, layers)) : std::nullopt;
}

bool is_sound(const Question& question, const std::vector<std::size_t>& cut) {
  return cut_problems(question.task.trainer.model, question.task.shard->shape, cut).empty();
}

/// The cuts that make the slowest stage as fast as possible, according to the measured profile: one
/// for a single chain of the fastest peers, and one for all peers.
std::set<std::vector<std::size_t>> profiled_cuts(const Question& question,
                                                 const std::vector<LayerProfile>& layers) {
  const std::size_t stages = question.task.stages->ends.size();
  std::set<std::vector<std::size_t>> cuts;
  for (const std::size_t peers : {stages, question.peers()}) {
    if (peers < stages || (peers > stages && peers > searched_peers_max)) continue;
    std::vector<double> speeds = question.speeds();
    std::ranges::sort(speeds, std::greater<>());
    speeds.resize(peers, 1.0);
    auto cut = cut_of(question, layers, speeds);
    if (cut && !is_sound(question, *cut)) cut = cut_of(question, with_parameters(layers), speeds);
    if (cut && is_sound(question, *cut)) cuts.insert(*cut);
  }
  return cuts;
}

// ---- Text ----

std::string list_of(const std::vector<std::size_t>& ends) {
  return fmt::format("[{}]", fmt::join(ends, ", "));
}

std::string layers_text(std::size_t first, std::size_t end) {
  return end - first == 1 ? fmt::format("{}", first) : fmt::format("{}-{}", first, end - 1);
}

void print_head(const Question& question) {
  const PipelineConfig& pipeline = question.pipeline();
  fmt::print("{}: {}, {} on {}, {} of {} a step\n", question.options.config,
             to_string(pipeline.schedule), counted(question.task.stages->ends.size(), "stage"),
             counted(question.peers(), "peer"),
             pipeline.micro_batches == 1 ? "1 micro-batch"
                                         : fmt::format("{} micro-batches", pipeline.micro_batches),
             counted(question.config.train.batch, "sample"));
  const PlanOptions& options = question.options;
  if (!options.speeds.empty()) {
    fmt::print("Peers: as fast as this machine by {}.\n", fmt::join(options.speeds, ", "));
  }
  if (options.bandwidth_mbit > 0) {
    fmt::print("Links: {:g} Mbit/s each way, {:g} ms.\n", options.bandwidth_mbit,
               options.latency_ms);
  } else if (options.latency_ms > 0) {
    fmt::print("Links: any bandwidth, {:g} ms.\n", options.latency_ms);
  } else {
    fmt::print("Links cost nothing; --bandwidth and --latency give them a price.\n");
  }
  fmt::print("{}", pins_text(pipeline.pins, question.peers()));
  if (pipeline.group > 1) {
    fmt::print("Groups are not counted: as with group = 1. A file of --peers counts them.\n");
  }
}

void print_layers(const std::vector<LayerProfile>& layers) {
  std::size_t width = 4;
  for (const LayerProfile& layer : layers) width = std::max(width, layer.name.size());
  width = std::min<std::size_t>(width, 44);
  fmt::print("\nLayers, for one micro-batch on one core of this machine:\n");
  fmt::print("{:>7}  {:<{}}  {:>10}  {:>10}  {:>11}  {:>9}\n", "layer", "kind", width, "parameters",
             "forward ms", "backward ms", "output kB");
  for (const LayerProfile& layer : layers) {
    fmt::print("{:>7}  {:<{}.{}}  {:>10}  {:>10.3f}  {:>11.3f}  {:>9.1f}\n",
               layers_text(layer.first, layer.end), layer.name, width, width, layer.parameters,
               ms(layer.forward_s), ms(layer.backward_input_s + layer.backward_weight_s),
               1e-3 * layer.output_bytes);
  }
}

/// The time of the slowest stage for one micro-batch on one peer.
double slowest_stage(const Plan& plan) {
  double slowest = 0;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const StageCost& cost = plan.stages[s].cost;
    const double seconds =
        cost.seconds(PipelineAction::forward) + cost.seconds(PipelineAction::backward);
    double speed = 0;
    for (const std::uint32_t peer : plan.carriers[s]) speed += plan.costs.speeds[peer];
    slowest = std::max(slowest, seconds / speed);
  }
  return slowest;
}

void print_cut(const char* name, const Plan& plan, std::size_t width) {
  fmt::print("  {:<20}  ends = {:<{}}  slowest stage {:>8.2f} ms  step {:>8.2f} ms\n", name,
             list_of(plan.spec.ends), width, ms(slowest_stage(plan)), ms(plan.predicted.makespan));
}

void print_cuts(const Question& question, const Plan& given, const std::optional<Plan>& other) {
  const bool is_explicit = !question.config.pipeline.ends.empty();
  const char* name = is_explicit ? "config's own" : "by estimated work";
  std::size_t width = list_of(given.spec.ends).size();
  if (other) width = std::max(width, list_of(other->spec.ends).size());
  fmt::print("\nCuts (ends: one past the last layer of each stage):\n");
  print_cut(name, given, width);
  if (!other) {
    fmt::print("There is no other cut to try.\n");
    return;
  }
  print_cut("best other measured", *other, width);
  const double part = 1 - other->predicted.makespan / given.predicted.makespan;
  if (part > worth_a_line) {
    fmt::print("The other one is {:.0f} % quicker. Write below [pipeline]:\n\nends = {}\n",
               100 * part, list_of(other->spec.ends));
  } else if (part > 0) {
    fmt::print("The other one is {:.0f} % quicker, which is not worth a change.\n", 100 * part);
  } else {
    fmt::print("No quicker one was found.\n");
  }
}

/// The bytes of memory that a stage needs: for all versions of its parameters, the gradients of one
/// micro-batch and of the whole step, the optimiser's vectors, and the micro-batches in flight.
double memory_bytes(const Question& question, const Plan& plan, std::size_t stage) {
  const StageProfile& profile = plan.stages[stage];
  const PipelineKind kind = question.pipeline().schedule;
  const std::size_t stages = plan.stages.size();
  std::size_t vectors = versions_max(kind, stages, stage) + 2 + profile.optimizer_vectors;
  // A run with several updates keeps its initial state, in case the run is abandoned.
  if (plan.spec.keeps_versions) vectors += 1 + profile.optimizer_vectors;
  const PipelineConfig& pipeline = question.pipeline();
  const auto flights = static_cast<double>(in_flight_max(
      kind, stages, stage, pipeline.micro_batches, pipeline.accumulate, pipeline.ahead));
  const double networks = plan.spec.recomputes ? 1 : flights;
  return static_cast<double>(sizeof(float) * profile.parameters * vectors) +
         networks * profile.network_bytes + flights * profile.input_bytes;
}

/// The fraction of the step during which a peer of the stage works on that stage.
double busy_part(const Plan& plan, std::uint32_t stage) {
  double busy = 0;
  for (const auto& worker : plan.predicted.workers) {
    for (const TimedOperation& timed : worker) {
      if (timed.operation.stage == stage) busy += timed.end - timed.begin;
    }
  }
  return busy / (plan.predicted.makespan * static_cast<double>(plan.carriers[stage].size()));
}

/// The size in kilobytes, or "-" for the last stage, which passes nothing on.
std::string kilobytes(double bytes) {
  return bytes > 0 ? fmt::format("{:.1f}", 1e-3 * bytes) : "-";
}

void print_stages(const Question& question, const Plan& plan) {
  fmt::print("\nStages of the config's cut, for one micro-batch on one core of this machine:\n");
  fmt::print("{:>5}  {:>6}  {:>5}  {:>10}  {:>9}  {:>10}  {:>11}  {:>9}  {:>7}  {:>6}\n", "stage",
             "layers", "peers", "parameters", "memory MB", "forward ms", "backward ms", "passes kB",
             "back kB", "busy %");
  std::size_t first = 0;
  for (std::uint32_t s = 0; s < plan.stages.size(); ++s) {
    const StageProfile& stage = plan.stages[s];
    fmt::print(
        "{:>5}  {:>6}  {:>5}  {:>10}  {:>9.1f}  {:>10.3f}  {:>11.3f}  {:>9}  {:>7}  {:>6.0f}\n", s,
        layers_text(first, plan.spec.ends[s]), plan.carriers[s].size(), stage.parameters,
        1e-6 * memory_bytes(question, plan, s), ms(stage.cost.forward),
        ms(stage.cost.seconds(PipelineAction::backward)), kilobytes(stage.forward_bytes),
        kilobytes(stage.backward_bytes), 100 * busy_part(plan, s));
    first = plan.spec.ends[s];
  }
}

void print_step(const char* name, const PipelineTiming& timing, std::size_t samples) {
  fmt::print("{:<9}  {:>8.2f}  {:>8.1f}  {:>9.0f}\n", name, ms(timing.makespan),
             100 * timing.bubble(), static_cast<double>(samples) / timing.makespan);
}

void print_steps(const Question& question, const Plan& plan, const MeasuredSteps& measured) {
  const std::size_t samples = question.pipeline().micro_batches * question.config.train.batch;
  fmt::print("\n{:<9}  {:>8}  {:>8}  {:>9}\n", "", "step ms", "bubble %", "samples/s");
  print_step("predicted", plan.predicted, samples);
  print_step("measured", measured.median, samples);
  const bool links = question.seconds_per_byte() > 0 || question.options.latency_ms > 0;
  fmt::print(
      "Measured is the median of {}, {:.2f} to {:.2f} ms. Every operation really ran, but one "
      "after\n"
      "the other on one core; its processor time then went through the schedule's clock. {}\n"
      "Not in it: sums between replicas of a stage, and peers that share a processor.\n",
      counted(measured.steps, "step"), ms(measured.least_s), ms(measured.most_s),
      links ? "Links are as given." : "Links are free.");
}

PictureOptions picture_of(const Question& question, const Plan& plan) {
  const PipelineConfig& pipeline = question.pipeline();
  PictureOptions picture{.title =
                             fmt::format("{}: {}, {} micro-batches, {:.1f} % bubble (predicted)",
                                         question.options.config, to_string(pipeline.schedule),
                                         pipeline.micro_batches, 100 * plan.predicted.bubble())};
  for (std::size_t peer = 0; peer < plan.stages_of.size(); ++peer) {
    const auto& stages = plan.stages_of[peer];
    picture.rows.push_back(fmt::format("peer {:>{}} stage{} {}", peer,
                                       std::to_string(plan.stages_of.size() - 1).size(),
                                       stages.size() == 1 ? "" : "s", fmt::join(stages, ", ")));
  }
  return picture;
}

int write_picture(const Plan& plan, const PictureOptions& picture, const std::string& path) {
  std::ofstream file(path);
  file << pipeline_svg(plan.predicted, picture);
  file.close();
  if (!file) return fail({{path, "cannot be written", "name a file in a folder that is there"}});
  fmt::print("\nA picture of that is in {}.\n", path);
  return 0;
}

/// True if no stage needs more memory than the config allows.
bool fits_memory(const Question& question, const Plan& plan) {
  const double limit = question.config.pipeline.memory_mb;
  for (std::size_t s = 0; limit > 0 && s < plan.stages.size(); ++s) {
    if (1e-6 * memory_bytes(question, plan, s) > limit) return false;
  }
  return true;
}

/// The valid cuts that result from moving one cut point by one layer.
std::set<std::vector<std::size_t>> neighbours(const Question& question,
                                              const std::vector<std::size_t>& cut) {
  std::set<std::vector<std::size_t>> found;
  for (std::size_t i = 0; i + 1 < cut.size(); ++i) {
    for (const std::size_t end : {cut[i] - 1, cut[i] + 1}) {
      std::vector<std::size_t> moved = cut;
      moved[i] = end;
      if (is_sound(question, moved)) found.insert(std::move(moved));
    }
  }
  return found;
}

/// The fastest valid plan among the profile's cuts and their neighbours, except the given plan;
/// nullopt if there is none. Measures neighbours only within `seconds`. Measurements are needed
/// because a stage may take less or more time than the sum of its layers.
std::optional<Plan> best_other(const Question& question, const std::vector<LayerProfile>& layers,
                               const Plan& given, double seconds) {
  const auto suggested = profiled_cuts(question, layers);
  std::vector<std::vector<std::size_t>> cuts(suggested.begin(), suggested.end());
  for (const auto& cut : suggested) {
    for (const auto& next : neighbours(question, cut)) {
      if (std::ranges::find(cuts, next) == cuts.end()) cuts.push_back(next);
    }
  }
  std::erase(cuts, given.spec.ends);
  const auto begin = std::chrono::steady_clock::now();
  const auto is_over = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() >=
           seconds;
  };
  std::optional<Plan> best;
  for (std::size_t i = 0; i < cuts.size() && (i < suggested.size() || !is_over()); ++i) {
    Plan plan = make_plan(question, cuts[i], seconds / static_cast<double>(cuts.size()));
    if (!plan.problems.empty() || !fits_memory(question, plan)) continue;
    if (!best || plan.predicted.makespan < best->predicted.makespan) best = std::move(plan);
  }
  return best;
}

/// Prints the plan and returns the exit code. It is 2 if the config cannot be read, has a different
/// mode or does not fit the peers, if the number of speeds is wrong, or if the picture cannot be
/// written.
int show_plan(const PlanOptions& options) {
  const std::size_t speeds = options.speeds.size();
  if (speeds > 0 && options.peers > 0 && speeds != options.peers) {
    return fail({{"--speeds", fmt::format("{} of them for {} peers", speeds, options.peers),
                  "give one for each peer, or leave --peers out"}});
  }
  if (speeds > peers_max ||
      !std::ranges::all_of(options.speeds, [](double speed) { return std::isfinite(speed); })) {
    return fail({{"--speeds", fmt::format("not up to {} numbers", peers_max),
                  "give one for each peer, as in 1,1,0.5"}});
  }
  ConfigOverrides overrides;
  if (options.peers + speeds > 0) overrides.peers = std::max(options.peers, speeds);
  const ParsedConfig parsed = parse_config_file(options.config, overrides);
  if (!parsed.problems.empty()) return fail(parsed.problems);
  const Config& config = parsed.config;
  if (config.run.mode != ModeKind::pipeline) {
    return fail({{options.config + ": run.mode", "only a pipeline has stages to plan",
                  "write mode = \"pipeline\" below [run], or name another config"}});
  }
  const Task task = load_task(config, 0);
  if (!task.problems.empty()) return fail(parsed.places.placed(task.problems));
  const Question question{options, config, task};
  const double part = options.seconds / 4;
  const Plan given = make_plan(question, task.stages->ends, part);
  if (!given.problems.empty()) return fail(given.problems);
  print_head(question);
  const std::vector<LayerProfile> layers = profile_layers(*task.stages, task.shard, part);
  print_layers(layers);
  print_cuts(question, given, best_other(question, layers, given, part));
  print_stages(question, given);
  std::fflush(stdout);
  print_steps(
      question, given,
      measure_steps(given.spec, task.shard, given.schedule, given.costs, given.predicted, part));
  const PictureOptions picture = picture_of(question, given);
  fmt::print("\nThe step as predicted:\n{}\n{}", pipeline_text(given.predicted, picture),
             pipeline_legend(given.predicted));
  return options.svg.empty() ? 0 : write_picture(given, picture, options.svg);
}

/// Shows the plan that --peers asks for: a number means equal peers, anything else names a file.
int show_any_plan(PlanOptions& options) {
  const std::string& text = options.peers_text;
  const bool is_number = std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
  if (!is_number) {
    const bool has_speeds = !options.speeds.empty();
    if (has_speeds || options.bandwidth_mbit > 0 || options.latency_ms > 0) {
      return fail({{has_speeds ? "--speeds" : "--bandwidth, --latency",
                    "the file of peers says it for each of them", "leave it out"}});
    }
    if (!options.svg.empty()) {
      return fail({{"--svg", "draws the schedule of a pipeline on equal peers",
                    "leave it out, or give a number of peers"}});
    }
    return show_shared_layers({.config = options.config,
                               .peers_file = text,
                               .samples = options.samples,
                               .as_json = options.as_json});
  }
  if (options.as_json || options.samples > 0) {
    return fail({{options.as_json ? "--json" : "--samples", "counts only with a file of peers",
                  "add --peers peers.toml, or leave it out"}});
  }
  if (!text.empty()) {
    options.peers = text.size() <= 3 ? std::stoul(text) : peers_max + 1;
    if (options.peers == 0 || options.peers > peers_max) {
      return fail({{"--peers", fmt::format("not a number from 1 to {}", peers_max),
                    "write how many peers there are, or a file that describes them"}});
    }
  }
  return show_plan(options);
}

}  // namespace

void add_plan(CLI::App& app) {
  const auto options = std::make_shared<PlanOptions>();
  auto* command =
      app.add_subcommand("plan",
                         "Show how a pipeline would work, by measuring its model, or how "
                         "unlike peers share layers");
  command
      ->add_option("CONFIG", options->config,
                   "A TOML file, with mode = \"pipeline\" unless peers are in a file")
      ->required();
  command->add_option("-n,--peers", options->peers_text,
                      "Number of peers, or a TOML file that describes unlike peers (see "
                      "docs/parallelism.md); default: run.peers");
  command
      ->add_option("--samples", options->samples,
                   "With a file of peers: samples in a step; default: by the config")
      ->check(CLI::Range(1, 1 << 24));
  command->add_flag("--json", options->as_json, "With a file of peers: the same as JSON");
  command
      ->add_option("--speeds", options->speeds,
                   "How fast each peer is, where this machine is 1, as in 1,1,0.5; default: all "
                   "are like it")
      ->delimiter(',')
      ->check(number_from(0.001, 1000.0));
  command->add_option("--svg", options->svg, "A file for a picture of the schedule");
  command
      ->add_option("--bandwidth", options->bandwidth_mbit,
                   "Bandwidth of every link, each way, in Mbit/s; default: sending takes no time")
      ->check(number_from(0.001, 1e6));
  command->add_option("--latency", options->latency_ms, "Latency of every link, one way, in ms")
      ->capture_default_str()
      ->check(number_from(0.0, 1e5));
  command->add_option("--seconds", options->seconds, "About how long to measure")
      ->capture_default_str()
      ->check(number_from(0.1, 600.0));
  command->footer(
      "Example:\n  grapevine plan configs/fashion-pipeline.toml\n"
      "  grapevine plan configs/fashion-pipeline.toml --speeds 1,1,0.5\n"
      "  grapevine plan configs/text-pipeline.toml -n 6 --bandwidth 100 --latency 5 --svg p.svg\n"
      "  grapevine plan configs/fashion-cnn.toml --peers peers.toml");
  command->callback([options] { exit_with(show_any_plan(*options)); });
}

}  // namespace gv
