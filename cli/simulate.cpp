// Runs a virtual swarm from a config, samples its curves and prints the result.
#include "cli/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <map>
#include <optional>
#include <vector>

#include "cli/judgement.hpp"
#include "cli/swarm.hpp"
#include "cli/virtual_work.hpp"
#include "peer/config/refusal.hpp"
#include "peer/host/replace_file.hpp"
#include "sim/local/table.hpp"
#include "sim/mean.hpp"
#include "sim/model_paths.hpp"
#include "sim/run_files.hpp"
#include "sim/run_folder.hpp"
#include "sim/virtual/curves.hpp"
#include "sim/virtual/hostile.hpp"
#include "sim/virtual/hostile_tally.hpp"
#include "sim/virtual/ledger_tally.hpp"
#include "sim/virtual/pipeline_tally.hpp"
#include "sim/virtual/population_tally.hpp"
#include "sim/virtual/saboteur.hpp"
#include "sim/virtual/simulator.hpp"
#include "sim/virtual/summary.hpp"
#include "sim/virtual/tally.hpp"
#include "sim/virtual/trace.hpp"
#include "sim/virtual/traffic_tally.hpp"

namespace gv {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double points_wanted = 100;

/// Prints one line of the summary.
void line(std::string_view name, const std::string& value) {
  fmt::print("{:<22} {}\n", name, value);
}

/// Replaces the file. If it cannot be written, prints an error and returns false.
bool write(const std::filesystem::path& file, const std::string& text) {
  const bool is_written = replace_file(file, text);
  if (!is_written) fmt::print(stderr, "{}: cannot be written\n", file.string());
  return is_written;
}

class Run {
 public:
  Run(const SimulateOptions& options, RunFiles files)
      : options_(options),
        config_(std::move(files.config)),
        scenario_(std::move(files.scenario)),
        places_(std::move(files.places)),
        hostile_(hostile_peers(scenario_, config_.run.peers, options.seed)) {
    draw_rules(scenario_, config_.run.peers, options.seed);
  }

  int run();

 private:
  bool is_of_swarm() const { return has_swarm_budget(config_); }
  double expected_s() const;
  CurvePoint look(const Simulator& world, bool quickly);
  std::vector<float> assembled(const Simulator& world) const;
  void show_progress(const CurvePoint& point);
  void print_runs(const PipelineOptions& options) const;
  void print_exchanges() const;
  void print_traffic(double peer_seconds) const;
  void print_population(std::span<const PeerSummary> peers) const;
  std::vector<PeerSummary> peers_of(const Simulator& world);
  double wall_s() const { return std::chrono::duration<double>(Clock::now() - began_).count(); }
  void print_summary(const Simulator& world, const CurvePoint& last,
                     std::span<const PeerSummary> peers);
  std::map<std::size_t, std::span<const float>> models(const Simulator& world) const;

  SimulateOptions options_;
  Config config_;
  Scenario scenario_;
  ConfigPlaces places_;
  std::map<std::size_t, HostileRule> hostile_;
  std::optional<VirtualWork> work_;
  Tally tally_;
  HostileTally hostile_tally_{hostile_};
  PipelineTally runs_;
  LedgerTally ledger_;
  PopulationTally population_;
  TrafficTally traffic_;
  Clock::time_point began_ = Clock::now();
  Clock::time_point shown_ = Clock::now();
  bool terminal_ = can_redraw();
  Duration expected_{};
  std::size_t stages_ = 0;  ///< Number of stages in a pipeline; 0 in other modes.
};

/// The models of the honest peers by peer number. Hostile peers' models do not count.
std::map<std::size_t, std::span<const float>> Run::models(const Simulator& world) const {
  std::map<std::size_t, std::span<const float>> models;
  for (PeerNumber number = 0; number < world.size(); ++number) {
    const VirtualPeer& peer = world.peer(number);
    if (peer.work && !hostile_.contains(number)) models[number] = peer.work->parameters();
  }
  return models;
}

/// A pipeline's model: for each stage, the mean of the replicas with the most steps. Empty if a
/// stage is missing.
std::vector<float> Run::assembled(const Simulator& world) const {
  std::vector<float> model;
  for (std::size_t stage = 0; stage < stages_; ++stage) {
    std::uint64_t newest = 0;
    std::vector<std::vector<Range>> ranges(world.size());
    std::vector<HeldModel> replicas;
    std::size_t size = 0;
    for (PeerNumber number = 0; number < world.size(); ++number) {
      const VirtualPeer& peer = world.peer(number);
      if (peer.work) ranges[number] = peer.work->stage_ranges(stage);
      if (ranges[number].empty()) continue;
      size = std::max(size, ranges[number].back().end);
      if (peer.work->step() > newest) replicas.clear();
      newest = std::max(newest, peer.work->step());
      if (peer.work->step() == newest) {
        replicas.push_back({ranges[number], peer.work->stage(stage)});
      }
    }
    const std::vector<float> mean = mean_of_held(size, replicas);
    if (mean.empty()) return {};
    model.insert(model.end(), mean.begin(), mean.end());
  }
  return model;
}

CurvePoint Run::look(const Simulator& world, bool quickly) {
  std::vector<std::span<const float>> all;
  for (const auto& [number, model] : models(world)) all.push_back(model);
  std::vector<float> whole;
  if (stages_ > 0) {
    whole = assembled(world);
    all.clear();
    if (!whole.empty()) all.emplace_back(whole);
  }
  std::size_t working = 0;
  CurvePoint point{.time_s = seconds(world.now().time_since_epoch())};
  if (!all.empty()) {
    const std::vector<float> mean = mean_of(all);
    const Judgement judgement = work_->judge(mean, quickly);
    point.accuracy = judgement.accuracy();
    point.r2 = judgement.r2();
    point.loss = judgement.loss;
    point.spread = spread_of(all, mean);
  }
  for (PeerNumber number = 0; number < world.size(); ++number) {
    const VirtualPeer& peer = world.peer(number);
    working += peer.work != nullptr;
    if (peer.work) point.steps += static_cast<double>(tally_.step_of(number));
    point.peers += peer.state == PeerState::up ? 1 : 0;
  }
  point.steps /= static_cast<double>(std::max<std::size_t>(1, working));
  point.exchanges = tally_.exchanges();
  point.megabytes =
      static_cast<double>(world.counts().lane_bytes + world.counts().control_bytes) / 1e6;
  return point;
}

void Run::show_progress(const CurvePoint& point) {
  const auto now = Clock::now();
  if (options_.trace || now - shown_ < std::chrono::seconds(1)) return;
  shown_ = now;
  const double wall = std::chrono::duration<double>(now - began_).count();
  fmt::print(
      "{}{:8.1f} s virtual ({:.0f} times real)  {:.0f} peers up  step {:.0f}  "
      "{}{}  spread {:.3g}{}",
      terminal_ ? "\r\x1b[K" : "", point.time_s, point.time_s / std::max(wall, 1e-9), point.peers,
      point.steps,
      config_.run.mode == ModeKind::gossip ? fmt::format("{:.0f} exchanges  ", point.exchanges)
                                           : std::string(),
      scenario_.work != WorkKind::training
          ? fmt::format("loss {:.4g}", point.loss)
          : (point.r2 ? "" : "accuracy ") + merit_text(point.merit(), point.r2.has_value()),
      point.spread, terminal_ ? "" : "\n");
  std::fflush(stdout);
}

/// The duration in seconds of a run in which nothing goes wrong. It depends on the slowest peer or,
/// if the swarm shares a budget, on all peers together.
double Run::expected_s() const {
  double longest = 0;
  double all_steps = 0;
  double all_speed = 0;
  for (std::size_t peer = 0; peer < config_.run.peers; ++peer) {
    const auto steps = static_cast<double>(work_->steps()[peer]);
    longest = std::max(longest, steps / scenario_.speed_of(peer));
    all_steps += steps;
    all_speed += scenario_.speed_of(peer);
  }
  return seconds(scenario_.step) * (is_of_swarm() ? all_steps / all_speed : longest);
}

/// Prints the traffic of the run. `peer_seconds` is the running time summed over all peers.
void Run::print_traffic(double peer_seconds) const {
  const auto each = [peer_seconds](std::uint64_t bytes) {
    return static_cast<double>(bytes) / std::max(peer_seconds, 1e-9);
  };
  line("small messages",
       fmt::format("{:.0f} bytes a second and peer, {:.0f} of them about the swarm's work; the "
                   "longest has {} bytes",
                   each(traffic_.bytes()), each(traffic_.work_bytes()), traffic_.longest()));
  for (const auto& [name, kind] : traffic_.kinds()) {
    line("  " + name, fmt::format("{:.0f} bytes a second and peer, {} messages", each(kind.bytes),
                                  kind.messages));
  }
}

int Run::run() {
  work_.emplace(config_, scenario_, hostile_);
  if (!work_->problems().empty()) return fail(places_.placed(work_->problems()));
  const Problems no_folder = problems_with_folder(options_.folder, config_.run.folder);
  if (!no_folder.empty()) return fail(no_folder);
  const auto folder =
      options_.folder.empty() ? new_run_folder(config_.run.folder) : options_.folder;

  expected_ = from_seconds(std::min(expected_s(), seconds(scenario_.until)));
  const Duration every = scenario_.sample_every > Duration{}
                             ? scenario_.sample_every
                             : from_seconds(std::max(1e-3, seconds(expected_) / points_wanted));

  const NodeOptions node = work_->node();
  stages_ = node.pipeline.stages.size();
  Simulator world({.peers = config_.run.peers,
                   .seed = options_.seed,
                   .scenario = scenario_,
                   .node = node,
                   .steps = is_of_swarm() ? std::vector<std::uint64_t>() : work_->steps(),
                   .data = work_->data()},
                  [this](std::size_t peer) { return work_->make(peer); });
  world.watch(tally_);
  world.watch(ledger_);
  if (config_.population.is_on()) world.watch(population_);
  if (!hostile_.empty()) world.watch(hostile_tally_);
  if (stages_ > 0) world.watch(runs_);
  Trace trace([](const std::string& line) { fmt::print("{}\n", line); });
  if (options_.trace) world.watch(trace);
  if (options_.traffic) world.watch(traffic_);
  if (!options_.trace) {
    fmt::print("{} virtual peers, seed {}; curves go to {}\n", world.size(), options_.seed,
               folder.string());
  }
  std::vector<CurvePoint> points;
  ModelPaths paths;
  const Time end(scenario_.until);
  for (Time at{}; at < end; at += every) {
    world.run(std::min(at, end));
    points.push_back(look(world, true));
    if (stages_ == 0) paths.look(points.back().time_s, models(world));
    show_progress(points.back());
    if (world.all_ended()) break;
  }
  world.run(end);
  points.push_back(look(world, true));
  const CurvePoint last = look(world, false);
  if (terminal_ && !options_.trace) fmt::print("\r\x1b[K");
  const std::string title = fmt::format("{} peers, seed {}", world.size(), options_.seed);
  bool are_written = write(folder / "curves.csv", curves_csv(points));
  are_written &= write(folder / "curves.svg", curves_svg(points, title));
  if (paths.can_be_drawn()) {
    are_written &= write(folder / "models.svg", paths.svg(title, "virtual seconds"));
  }
  const std::vector<PeerSummary> peers = peers_of(world);
  are_written &= write(folder / "summary.json",
                       virtual_summary(world, tally_, hostile_tally_, last, peers, wall_s()));
  print_summary(world, last, peers);
  if (options_.traffic) {
    const double peer_seconds = last.time_s * static_cast<double>(world.size());
    are_written &= write(folder / "traffic.json", traffic_.to_json(peer_seconds));
    print_traffic(peer_seconds);
  }
  return are_written ? 0 : 1;
}

/// Prints a pipeline's speed and bubble, and the bubble that its schedule alone would cause.
void Run::print_runs(const PipelineOptions& options) const {
  const double each = runs_.seconds_each();
  if (each == 0) return;
  const std::size_t chains = config_.run.peers / stages_;
  std::string alone;
  if (chains > 0 && config_.run.peers % stages_ == 0 && options.micro_batches % chains == 0) {
    alone = fmt::format("; {:.2f} % if peers are alike and links free",
                        100 * free_bubble(options, options.micro_batches / chains));
  }
  fmt::print("{:<22} {} in {:.4g} s each, {:.4g} micro-batches a second\n", "runs", runs_.runs(),
             each, static_cast<double>(options.micro_batches) / each);
  fmt::print("{:<22} {:.2f} % of peers' time{}\n", "bubble", 100 * runs_.bubble(), alone);
}

/// Prints the members of a population, best first.
void Run::print_population(std::span<const PeerSummary> peers) const {
  std::vector<PeerSummary> members;
  std::ranges::copy_if(peers, std::back_inserter(members),
                       [](const PeerSummary& peer) { return peer.trial.has_value(); });
  std::ranges::stable_sort(members, {},
                           [](const PeerSummary& peer) { return peer.trial->validation_loss; });
  fmt::print("{:<22} {} copies of others\n", "population", population_.copies());
  for (const PeerSummary& member : members) {
    fmt::print(
        "  {:<20} learning rate {:.3g}  momentum {:.3g}  held-out loss {:.4f}  copies {}{}\n",
        fmt::format("peer-{}", member.number), member.trial->learning_rate, member.trial->momentum,
        member.trial->validation_loss, member.copies,
        member.merit() != 0 ? "  " + merit_text(member.merit(), member.r2.has_value()) : "");
  }
}

/// Summaries of all peers. Peers of a pipeline are not evaluated, because each has only a part of
/// the model.
std::vector<PeerSummary> Run::peers_of(const Simulator& world) {
  const bool judged = stages_ == 0 && scenario_.work == WorkKind::training;
  std::vector<PeerSummary> peers;
  for (PeerNumber number = 0; number < world.size(); ++number) {
    const auto& work = world.peer(number).work;
    PeerSummary peer{.number = number, .budget = work_->steps()[number], .has_model = !!work};
    if (work) peer.step = tally_.step_of(number);
    if (const auto found = hostile_.find(number); found != hostile_.end()) {
      peer.hostile = found->second;
    }
    if (work && judged) {
      const Judgement judgement = work_->judge(work->parameters(), false);
      peer.accuracy = judgement.accuracy();
      peer.r2 = judgement.r2();
    }
    const auto trial = population_.trials().find(number);
    if (trial != population_.trials().end()) peer.trial = trial->second;
    peer.copies = population_.copies(number);
    peers.push_back(peer);
  }
  return peers;
}

void Run::print_exchanges() const {
  line("exchanges",
       fmt::format("{:.0f} in {:.3g} s each; {} refused, {} aborted, {} undecided",
                   tally_.exchanges(), tally_.exchange_seconds(), tally_.count<ExchangeRefused>(),
                   tally_.count<ExchangeAborted>(), tally_.count<ExchangeUndecided>()));
  if (!tally_.by_reason().empty()) {
    std::string text;
    for (const auto& [what, count] : tally_.by_reason()) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", what, count);
    }
    line("reasons", text);
  }
  line("staleness", fmt::format("{:.1f} steps between the two sides", tally_.staleness()));
}

void Run::print_summary(const Simulator& world, const CurvePoint& last,
                        std::span<const PeerSummary> peers) {
  const double wall = wall_s();
  TimeSpent spent;
  double worst = 1;
  for (const PeerSummary& peer : peers) {
    if (peer.has_model && !peer.hostile) worst = std::min(worst, peer.merit());
  }
  for (PeerNumber number = 0; number < world.size(); ++number) {
    const VirtualPeer& peer = world.peer(number);
    spent.training += peer.spent.training;
    spent.slowed += peer.spent.slowed;
    spent.joining += peer.spent.joining;
    spent.stopped += peer.spent.stopped;
    spent.down += peer.spent.down;
  }
  if (scenario_.work == WorkKind::training) {
    const bool is_r2 = last.r2.has_value();
    line("mean model", fmt::format("{}  loss {:.4f}", merit_text(last.merit(), is_r2), last.loss));
    if (stages_ == 0) line("worst peer", merit_text(worst, is_r2));
  } else if (scenario_.work == WorkKind::quadratic) {
    line("mean model", fmt::format("{:.6g} above the least loss", last.loss));
  }
  line("spread", fmt::format("{:.4g}", last.spread));
  if (!hostile_.empty()) {
    std::string text;
    for (const auto& [peer, rule] : hostile_) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", peer, to_string(rule.attack));
    }
    line("hostile", text + "; all of the above is of the honest");
    const Belief& hostile = hostile_tally_.of_hostile();
    const Belief& honest = hostile_tally_.of_honest();
    line("held back",
         fmt::format("{} of {} hostile models, {} of {} honest; {} not read", hostile.held_back,
                     hostile.heard, honest.held_back, honest.heard, hostile_tally_.refused()));
  }
  line("virtual time", fmt::format("{:.2f} s in {:.2f} s ({:.0f} times real)", last.time_s, wall,
                                   last.time_s / std::max(wall, 1e-9)));
  line("steps", fmt::format("{} by all peers", tally_.steps()));
  if (ledger_.samples() > 0) line("ledger", ledger_.text());
  if (stages_ > 0) print_runs(world.options().node.pipeline);
  if (config_.population.is_on()) print_population(peers);
  if (config_.run.mode == ModeKind::gossip) print_exchanges();
  if (const std::uint64_t switches = tally_.count<AlgorithmSwitched>(); switches > 0) {
    line("switches", fmt::format("{} times that a peer began to go by other settings", switches));
  }
  const WorldCounts& counts = world.counts();
  line("messages", fmt::format("{} ({} lost, {} twice, {} damaged; blocks included)",
                               counts.messages, counts.lost, counts.duplicated, counts.damaged));
  line("bytes", fmt::format("{:.1f} MB of models, {:.2f} MB of messages",
                            static_cast<double>(counts.lane_bytes) / 1e6,
                            static_cast<double>(counts.control_bytes) / 1e6));
  line("time of peers",
       fmt::format("{:.1f} s training; lost: {:.1f} s slowed, {:.1f} s joining, {:.1f} s stopped, "
                   "{:.1f} s down",
                   spent.training, spent.slowed, spent.joining, spent.stopped, spent.down));
  if (!tally_.injected().empty()) {
    std::string text;
    for (const auto& [name, count] : tally_.injected()) {
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", count, name);
    }
    line("faults", text);
    line("seen as", fmt::format("{} deaths, {} models fetched", tally_.count<MemberDead>(),
                                tally_.count<ModelFetched>()));
  }
  line("events", fmt::format("{} ({:.0f} a second)", counts.events,
                             static_cast<double>(counts.events) / std::max(wall, 1e-9)));
  line("trace hash", fmt::format("{:016x}", world.trace_hash()));
}

/// Adds the problems that config and scenario have only in combination. `path` is the name of their
/// file in messages.
RunFiles checked(RunFiles parsed, const std::string& path) {
  const std::size_t peers = parsed.config.run.peers;
  std::ranges::move(neighbours_problems(parsed, path), std::back_inserter(parsed.problems));
  if (parsed.problems.empty()) parsed.problems = switch_problems(parsed, path);
  std::ranges::move(problems_with_rules(parsed.scenario, peers, parsed.scenario.until, path),
                    std::back_inserter(parsed.problems));
  std::ranges::move(problems_with_hostile(parsed.scenario, parsed.config.run.mode,
                                          parsed.config.mixing.rule, peers, path),
                    std::back_inserter(parsed.problems));
  std::ranges::move(problems_with_saboteurs(parsed.scenario, peers, path),
                    std::back_inserter(parsed.problems));
  const CompressorKind& compressor = chosen_compressor(parsed.config.allreduce.compression);
  if (!compressor.model_has.empty() && parsed.scenario.work != WorkKind::training) {
    parsed.problems.push_back(
        {fmt::format("{}: allreduce.{}", path, compressor.setting),
         fmt::format("what is not trained has no {}", compressor.model_has),
         fmt::format("write scenario.work = \"training\", or leave {} out", compressor.setting)});
  }
  return parsed;
}

/// Reads config and scenario from one file. Either may set the number of peers.
RunFiles parse(const std::string& path) { return checked(read_run_files(path), path); }

/// Makes a world from these files. If the world cannot be checked, adds the reasons to the
/// problems.
CheckedWorld world_of(RunFiles parsed, const std::string& path, std::uint64_t seed) {
  if (parsed.scenario.work == WorkKind::training) {
    parsed.problems.push_back({path + ": scenario.work",
                               "\"training\" is not checked, only what peers do with each other",
                               "write work = \"quadratic\" or \"time\""});
  }
  if (!parsed.scenario.hostile.empty()) {
    parsed.problems.push_back({path + ": scenario.hostile",
                               "what hostile peers send breaks what is checked on purpose",
                               "leave out --check, or the hostile peers"});
  }
  parsed.scenario.peers = parsed.config.run.peers;
  DrawnWorld world{.seed = seed, .scenario = parsed.scenario, .config = parsed.config};
  return {std::move(world), std::move(parsed.problems)};
}

}  // namespace

CheckedWorld read_world(const std::string& path, std::uint64_t seed) {
  RunFiles read = read_run_files(path);
  drop_missing_peers(read.scenario, read.config.run.peers);
  return world_of(checked(std::move(read), path), path, seed);
}

bool is_legal(const DrawnWorld& world) {
  const std::string name = "world.toml";
  return world_of(checked(read_run_text(to_toml(world), name), name), name, world.seed)
      .problems.empty();
}

int check_scenario(const SimulateOptions& options) {
  const CheckedWorld read = world_of(parse(options.config), options.config, options.seed);
  return read.problems.empty() ? check_world(read.world, options.config, options.trace)
                               : fail(read.problems);
}

int simulate(const SimulateOptions& options) {
  RunFiles parsed = parse(options.config);
  if (!parsed.problems.empty()) return fail(parsed.problems);
  try {
    return Run(options, std::move(parsed)).run();
  } catch (const std::exception& error) {
    fmt::print(stderr, "sim: {}\n", error.what());
    return 1;
  }
}

}  // namespace gv
