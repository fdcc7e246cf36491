// Rounds of mixing agree with serial rounds, survive deaths, arrivals and stops, and work for every
// named algorithm.
#include "peer/modes/mixing.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <iterator>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "consensus/mixing/mixer.hpp"
#include "peer/config/algorithms.hpp"
#include "peer/config/config.hpp"
#include "peer/modes/state_transfer.hpp"
#include "peer/node/whole_replica.hpp"
#include "sim/virtual/simulator.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "tests/consensus/mixing_lab.hpp"
#include "tests/sim/ending.hpp"
#include "tests/sim/lockstep_run.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t seed = 11;

/// Peers that mix in rounds by `rule` once all have joined.
Simulator::Options rounds_world(Simulator::Options options, const MixRule& rule,
                                std::uint64_t period = 1) {
  options.node.mode = ModeKind::mixing;
  options.node.course.wait_for_peers = options.peers;
  options.node.mixing.rule = rule;
  options.node.mixing.period = period;
  return options;
}

MakeWorkload mixing(MakeWorkload make, const MixRule& rule, std::uint64_t run_seed) {
  return [make = std::move(make), rule, run_seed](std::size_t peer) {
    auto workload = make(peer);
    workload->mix_by(rule, run_seed);
    return workload;
  };
}

/// A virtual world of a training run whose peers mix by `rule`.
Simulator::Options world_of(const LockstepRun& run, const MixRule& rule, std::uint64_t period) {
  Simulator::Options options = rounds_world(run.options(), rule, period);
  options.node.mixing.state_elements = WholeReplica(run.learner(0), 0).state_size();
  return options;
}

/// The result that a swarm should have, computed by trainers and mixers without a swarm.
std::vector<std::vector<float>> serially(const LockstepRun& run, const MixRule& rule,
                                         std::uint64_t period) {
  const std::size_t peers = run.specs.size();
  std::vector<std::unique_ptr<Learner>> trainers;
  std::vector<Mixer<float>> mixers;
  for (std::size_t i = 0; i < peers; ++i) {
    trainers.push_back(run.learner(i));
    mixers.emplace_back(rule, trainers[i]->parameters().size(), seed);
    mixers[i].begin_generation(i, order_of(peers), 1, trainers[i]->parameters());
  }
  for (std::uint64_t round = 0; trainers[0]->step() < run.steps; ++round) {
    std::vector<std::vector<MixMessage>> sent(peers);
    for (std::size_t i = 0; i < peers; ++i) {
      const auto x = trainers[i]->live_parameters();
      mixers[i].begin_round(round, x);
      const bool first = rule.order == MixOrder::combine_then_adapt;
      if (first) sent[i] = mixers[i].messages(round, x);
      const double rate = trainers[i]->learning_rate();
      const std::uint64_t steps = std::min(period, run.steps - trainers[i]->step());
      if (mixers[i].directs()) {
        trainers[i]->run_steps(steps, [&](std::span<float> g) { mixers[i].direct(g); });
      } else {
        trainers[i]->run_steps(steps);
      }
      mixers[i].end_steps(x, rate, steps);
      if (!first) sent[i] = mixers[i].messages(round, x);
    }
    for (std::size_t i = 0; i < peers; ++i) {
      std::vector<MixMessage> arrived;
      for (std::size_t from = 0; from < peers; ++from) {
        for (const MixMessage& message : sent[from]) {
          if (std::ranges::count(message.to, i) > 0) {
            arrived.push_back(message);
          }
        }
      }
      mixers[i].mix(round, trainers[i]->live_parameters(), arrived);
    }
  }
  std::vector<std::vector<float>> models;
  for (const auto& trainer : trainers) {
    models.emplace_back(trainer->parameters().begin(), trainer->parameters().end());
  }
  return models;
}

}  // namespace

TEST_CASE("rounds of real training are the serial rounds bit for bit", "[sim][mixing]") {
  const std::size_t peers = GENERATE(1, 2, 5);
  const Codec tenth{.kind = CodecKind::top_k, .fraction = 0.1};
  const std::vector<MixRule> rules = {
      {},
      {.order = MixOrder::combine_then_adapt},
      {.topology = {.kind = TopologyKind::one_peer_exponential}, .kind = MixKind::push_sum},
      {.topology = {.kind = TopologyKind::tree}, .kind = MixKind::relay_sum},
      {.topology = {.kind = TopologyKind::complete}, .partners = Partners::pull},
      {.partners = Partners::pairs, .kind = MixKind::companion},
      {.topology = {.kind = TopologyKind::matching},
       .kind = MixKind::noloco,
       .gamma = 0.7,
       .momentum = 0.5},
      {.gamma = 0.2, .codec = tenth, .memory = MixMemory::difference},
      {.gamma = 0.1, .codec = tenth, .memory = MixMemory::error_feedback},
      {.codec = {.kind = CodecKind::fp16}, .memory = MixMemory::replicated_difference},
      {.correction = MixCorrection::tracking},
      {.correction = MixCorrection::quasi_global},
      {.correction = MixCorrection::decentlam},
      {.topology = {.kind = TopologyKind::ring, .lazy = true}, .correction = MixCorrection::d2},
      {.topology = {.kind = TopologyKind::complete}, .outer = MixOuter::slowmo, .outer_every = 3}};
  for (const MixRule& rule : rules) {
    LockstepRun run(peers, 8, 20, OptimizerKind::sgd);
    for (TrainerSpec& spec : run.specs) spec.schedule.kind = ScheduleKind::cosine;
    const std::uint64_t period = traits_of(rule).one_by_one ? 1 : 3;
    Simulator world(world_of(run, rule, period), mixing(run.workloads(), rule, seed));
    world.run(Time(5min));
    const auto expected = serially(run, rule, period);
    INFO(to_string(rule.kind) << " " << to_string(rule.memory) << " "
                              << to_string(rule.correction));
    for (PeerNumber number = 0; number < world.size(); ++number) {
      REQUIRE(world.peer(number).work);
      CHECK(std::ranges::equal(world.peer(number).work->parameters(), expected[number]));
    }
  }
}

namespace {

/// The state of all peers at the end of a world of quadratics.
struct Ended {
  std::size_t whole = 0;      ///< Peers that have taken all their steps.
  std::uint64_t adopted = 0;  ///< States that newcomers adopted.
  std::uint64_t refused = 0;  ///< Messages that could not be read.
  double furthest = 0;        ///< Largest distance of a model from the common optimum.
};

constexpr std::uint64_t budget = 300;

Ended ended(const Simulator& world, const QuadraticSpec& spec) {
  const std::vector<double> optimum = common_optimum(spec, world.size());
  Ended ended;
  for (PeerNumber number = 0; number < world.size(); ++number) {
    const auto& peer = world.peer(number);
    if (!peer.work) continue;
    ended.whole += peer.work->step() >= budget;
    double squares = 0;
    for (std::size_t k = 0; k < optimum.size(); ++k) {
      squares += std::pow(peer.work->parameters()[k] - optimum[k], 2);
    }
    ended.furthest = std::max(ended.furthest, std::sqrt(squares));
    if (peer.node) ended.refused += peer.node->as<MixingMode>()->counts().messages_refused;
  }
  return ended;
}

/// Quadratics whose optima are close together.
QuadraticSpec agreeable(std::size_t dimension) {
  return {.dimension = dimension, .noise = 0, .disagreement = 0.1};
}

Simulator::Options faulty_world(const MixRule& rule, const std::vector<FaultRule>& faults) {
  Simulator::Options options = rounds_world(small_world(7, seed), rule, 2);
  options.node.course.steps = budget;
  options.node.mixing.state_elements = options.scenario.dimension;
  options.scenario.faults = faults;
  return options;
}

Ended run_of(const MixRule& rule, const std::vector<FaultRule>& faults,
             std::size_t wait_for_peers = 7) {
  Simulator::Options options = faulty_world(rule, faults);
  options.node.course.wait_for_peers = wait_for_peers;
  const QuadraticSpec spec = agreeable(options.scenario.dimension);
  Simulator world(options,
                  mixing([&](std::size_t p) { return quadratic_workload(spec, p); }, rule, seed));
  std::uint64_t adopted = 0;
  FactWatch watch([&](const Simulator&, PeerNumber, const Fact& fact) {
    adopted += std::holds_alternative<StateAdopted>(fact);
  });
  world.watch(watch);
  world.run(Time(5min));
  Ended result = ended(world, spec);
  result.adopted = adopted;
  return result;
}

/// Rules whose peers keep different kinds of memory of their neighbours, each of which has to
/// survive deaths.
std::vector<MixRule> rules_with_memory() {
  return {{},
          {.topology = {.kind = TopologyKind::one_peer_exponential},
           .kind = MixKind::push_sum,
           .staleness = 1},
          {.topology = {.kind = TopologyKind::tree}, .kind = MixKind::relay_sum},
          {.gamma = 0.2,
           .codec = {.kind = CodecKind::top_k, .fraction = 0.25},
           .memory = MixMemory::difference},
          {.correction = MixCorrection::tracking},
          {.topology = {.kind = TopologyKind::exponential},
           .order = MixOrder::combine_then_adapt,
           .staleness = unbounded_staleness}};
}

}  // namespace

TEST_CASE("a death at any moment of rounds leaves the others training", "[sim][mixing]") {
  for (const MixRule& rule : rules_with_memory()) {
    for (int moment = 0; moment < 20; ++moment) {
      // Each peer dies, even the first by id, at moments from the first ballot to well into the
      // run.
      const Duration at = 300ms + 83ms * moment;
      const Ended world =
          run_of(rule, {fault(FaultKind::kill, at, just(static_cast<std::size_t>(moment) % 7))});
      INFO(to_string(rule.kind) << " moment " << moment);
      CHECK(world.whole == 6);
      CHECK(world.refused == 0);
    }
  }
}

TEST_CASE("a peer that comes back or wakes up goes on with the others", "[sim][mixing]") {
  for (const MixRule& rule : rules_with_memory()) {
    const Ended world = run_of(
        rule, {fault(FaultKind::kill, 1s, just(2), 1s), fault(FaultKind::stop, 3s, just(5), 4s),
               fault(FaultKind::kill, 4s, just(0), 500ms)});
    INFO(to_string(rule.kind));
    CHECK(world.whole == 7);
    CHECK(world.refused == 0);
    CHECK(world.furthest < 1);
  }
}

namespace {

/// Counts the messages sent under a mixing rule with memory, by their MixForm.
class Forms : public Watcher {
 public:
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override {
    const auto& node = world.peer(peer).node;
    if (!node || !node->as<MixingMode>()) return;
    for (const Transfer& transfer : effects.transfers) {
      if (transfer.id.kind != TransferKind::mixing) continue;
      MixHeader header;
      std::memcpy(&header, transfer.payload.bytes.data(), sizeof(header));
      ++sent[header.form];
    }
  }
  std::map<MixForm, int> sent;
};

}  // namespace

TEST_CASE("after deaths and returns only new neighbours are sent the whole", "[sim][mixing]") {
  const MixRule rule{
      .gamma = 0.45, .codec = {.kind = CodecKind::sign}, .memory = MixMemory::difference};
  Simulator::Options options = faulty_world(
      rule, {fault(FaultKind::kill, 1s, just(2), 1s), fault(FaultKind::kill, 3s, just(5), 1s)});
  const QuadraticSpec spec = agreeable(options.scenario.dimension);
  Simulator world(options,
                  mixing([&](std::size_t p) { return quadratic_workload(spec, p); }, rule, seed));
  Forms forms;
  world.watch(forms);
  world.run(Time(5min));
  CHECK(ended(world, spec).whole == 7);
  // Whole references go to all neighbours at first. Later they go between the two peers that a
  // death makes neighbours, and between a returning peer and its two neighbours.
  CHECK(forms.sent[MixForm::whole] == 14 + 2 * (2 + 4));
  CHECK(forms.sent[MixForm::coded] > 1500);
}

TEST_CASE("a newcomer far behind is sent a model", "[sim][mixing]") {
  const Ended world = run_of({}, {fault(FaultKind::join, 4s, just(3))}, 6);
  CHECK(world.whole == 7);
  CHECK(world.adopted == 1);
  CHECK(world.furthest < 1);
}

namespace {

/// Measures the largest lead, in rounds, of one peer over another in the same generation.
class Lead : public Watcher {
 public:
  void after(const Simulator& world, PeerNumber) override {
    std::map<std::uint64_t, std::pair<std::uint64_t, std::uint64_t>> ends;
    for (PeerNumber number = 0; number < world.size(); ++number) {
      const auto& node = world.peer(number).node;
      const Generation* generation =
          node ? node->as<MixingMode>()->generations()->agreement().generation() : nullptr;
      if (generation == nullptr) continue;
      const std::uint64_t step = node->as<MixingMode>()->step();
      const auto [end, fresh] = ends.try_emplace(generation->key(), step, step);
      end->second.first = std::min(end->second.first, step);
      end->second.second = std::max(end->second.second, step);
    }
    for (const auto& [key, range] : ends) {
      most = std::max(most, range.second - range.first);
    }
  }
  std::uint64_t most = 0;
};

/// The results of a run with a slow peer.
struct Straggled {
  std::uint64_t lead = 0;      ///< The largest lead of a peer, in steps.
  double done = 0;             ///< When peer 0 was done, in seconds.
  std::size_t held_after = 0;  ///< Most messages that peer 0 held once done for a second.
};

/// Runs with peer 2 at a quarter of the pace.
Straggled with_a_straggler(const MixRule& rule) {
  Simulator::Options options = faulty_world(rule, {});
  options.node.mixing.period = 1;
  options.scenario.step_jitter = 0;
  options.scenario.speeds = {{.peers = just(2), .factor = 0.25}};
  const QuadraticSpec spec = agreeable(options.scenario.dimension);
  Simulator world(options,
                  mixing([&](std::size_t p) { return quadratic_workload(spec, p); }, rule, seed));
  Lead lead;
  world.watch(lead);
  Straggled found;
  for (Time at{}; at < Time(2min); at += 100ms) {
    world.run(at);
    const auto& node = world.peer(0).node;
    const auto& work = world.peer(0).work;
    const double now = seconds(at.time_since_epoch());
    if (found.done == 0 && work && work->step() >= budget) found.done = now;
    if (found.done == 0 || now < found.done + 1 || !node) continue;
    found.held_after = std::max(found.held_after, node->as<MixingMode>()->held());
  }
  found.lead = lead.most;
  return found;
}

}  // namespace

// Ho 2013: if all peers are neighbours, their clocks differ by at most the staleness plus 1.
TEST_CASE("bounded staleness bounds how far ahead anybody comes", "[sim][mixing]") {
  for (const std::uint64_t staleness : {0ULL, 1ULL, 4ULL}) {
    const Straggled found = with_a_straggler({.topology = {.kind = TopologyKind::complete},
                                              .order = MixOrder::combine_then_adapt,
                                              .staleness = staleness});
    CHECK(found.lead <= staleness + 1);
    CHECK(found.lead >= staleness);
    CHECK(found.done > 0);
  }
}

TEST_CASE("who never waits is not held up by a straggler", "[sim][mixing]") {
  const MixRule waits{.topology = {.kind = TopologyKind::exponential},
                      .order = MixOrder::combine_then_adapt};
  MixRule goes_on = waits;
  goes_on.staleness = unbounded_staleness;
  const Straggled slowed = with_a_straggler(waits);
  const Straggled own_pace = with_a_straggler(goes_on);
  // 300 steps of 20 ms take 6 s, and 24 s at a quarter of the pace.
  CHECK(slowed.done > 23);
  CHECK(own_pace.done < 7);
  // The straggler goes on sending for 18 s, and its messages are of no use to those that are done.
  CHECK(own_pace.held_after <= 1);
}

TEST_CASE("a slow peer that never waits ends its rounds in short generations too",
          "[sim][mixing]") {
  for (const MixOrder order : {MixOrder::adapt_then_combine, MixOrder::combine_then_adapt}) {
    std::vector<FaultRule> deaths;
    for (int i = 0; i < 10; ++i) {
      deaths.push_back(fault(FaultKind::kill, 2s + 3s * i, just(2), 500ms));
    }
    MixRule rule{.order = order};
    rule.staleness = unbounded_staleness;
    Simulator::Options options = faulty_world(rule, deaths);
    options.node.course.steps = 1'000'000;
    options.node.mixing.period = 10;
    options.node.mixing.catch_up_rounds = 1'000'000;
    options.scenario.speeds = {{.peers = just(5), .factor = 0.02}};
    const QuadraticSpec spec = agreeable(options.scenario.dimension);
    Simulator world(options,
                    mixing([&](std::size_t p) { return quadratic_workload(spec, p); }, rule, seed));
    // A round of ten steps of 20 ms takes 10 s at a fiftieth of the pace, and a generation lasts
    // 3 s at most.
    world.run(Time(30s));
    const MixingCounts counts = world.peer(5).node->as<MixingMode>()->counts();
    INFO(to_string(order));
    CHECK(counts.generations > 8);
    CHECK(counts.rounds == 2);
  }
}

TEST_CASE("a slow peer of a swarm with a common budget is not accused of unsound versions",
          "[sim][mixing]") {
  Simulator::Options options = world_of(4, 3000, Way::rounds_without_waiting);
  options.node.mixing.period = 1;
  // A round takes the slow peer 20 s. Meanwhile the others train more samples than a version with
  // so few steps may count.
  options.scenario.speeds = {{.peers = just(3), .factor = 0.001}};
  options.scenario.faults = {fault(FaultKind::kill, 30s, just(2))};
  Simulator world(options, learners(options));
  std::vector<std::string> accusations;
  FactWatch watch([&](const Simulator&, PeerNumber, const Fact& fact) {
    const auto* unsound = std::get_if<UnsoundMessage>(&fact);
    if (unsound != nullptr) accusations.push_back(unsound->why);
  });
  world.watch(watch);
  world.run(Time(55s));
  CHECK(accusations.empty());
  CHECK(world.peer(3).node->as<MixingMode>()->counts().rounds > 0);
}

namespace {

/// The virtual seconds that 50 rounds take, with steps of 100 ms over links of 80 ms.
double seconds_of_rounds(const MixRule& rule, double pace = 1) {
  Simulator::Options options = faulty_world(rule, {});
  options.node.mixing.period = 1;
  options.scenario.step = 100ms;
  options.scenario.step_jitter = 0;
  options.scenario.links = {every_link({.latency = 80ms})};
  options.scenario.speeds = {{.factor = pace}};
  const QuadraticSpec spec = agreeable(options.scenario.dimension);
  Simulator world(options,
                  mixing([&](std::size_t p) { return quadratic_workload(spec, p); }, rule, seed));
  double begun = 0;
  for (Time at{}; at < Time(2min); at += 5ms) {
    world.run(at);
    const auto& work = world.peer(0).work;
    if (!work) continue;
    if (begun == 0 && work->step() >= 10) begun = seconds(at.time_since_epoch());
    if (work->step() >= 60) return seconds(at.time_since_epoch()) - begun;
  }
  return 0;
}

}  // namespace

TEST_CASE("who sends before its steps pays for the longer of computing and communicating",
          "[sim][mixing]") {
  const MixRule steps_first;
  const MixRule sends_first{.order = MixOrder::combine_then_adapt};
  CHECK(seconds_of_rounds(steps_first) == Approx(50 * 0.180).epsilon(0.02));
  CHECK(seconds_of_rounds(sends_first) == Approx(50 * 0.100).epsilon(0.02));
  // At twice the pace, communicating takes longer than computing.
  CHECK(seconds_of_rounds(steps_first, 2) == Approx(50 * 0.130).epsilon(0.02));
  CHECK(seconds_of_rounds(sends_first, 2) == Approx(50 * 0.080).epsilon(0.02));
}

TEST_CASE("a centre that rests takes no time for steps", "[sim][mixing]") {
  MixRule rule{.topology = {.kind = TopologyKind::star}, .order = MixOrder::combine_then_adapt};
  rule.centre_rests = true;
  Simulator::Options options = faulty_world(rule, {});
  options.scenario.speeds = {{.peers = just(0), .factor = 0.01}};
  const QuadraticSpec spec = agreeable(options.scenario.dimension);
  Simulator world(options,
                  mixing([&](std::size_t p) { return quadratic_workload(spec, p); }, rule, seed));
  // 300 steps of 20 ms take 6 s, and 600 s at a hundredth of the pace.
  world.run(Time(15s));
  CHECK(ended(world, spec).whole == 7);
}

TEST_CASE("a centre that is alone trains", "[sim][mixing]") {
  MixRule rule{.topology = {.kind = TopologyKind::star}};
  rule.centre_rests = true;
  Simulator::Options options = rounds_world(small_world(1, seed), rule);
  options.node.course.steps = budget;
  const QuadraticSpec spec = agreeable(options.scenario.dimension);
  Simulator world(options,
                  mixing([&](std::size_t p) { return quadratic_workload(spec, p); }, rule, seed));
  world.run(Time(1min));
  CHECK(ended(world, spec).whole == 1);
  CHECK(ended(world, spec).furthest < 0.1);
}

TEST_CASE("every named algorithm is on the page of its family", "[sim][mixing]") {
  for (const NamedAlgorithm& algorithm : named_algorithms()) {
    std::ifstream page(std::string(GRAPEVINE_SOURCE_DIR) + "/docs/algorithms/" +
                       std::string(algorithm.family) + ".md");
    const std::string text{std::istreambuf_iterator<char>(page), {}};
    CAPTURE(algorithm.name, algorithm.family);
    CHECK(text.find("`" + std::string(algorithm.name) + "`") != std::string::npos);
  }
}

TEST_CASE("every named algorithm trains as its settings are", "[sim][mixing]") {
  for (const NamedAlgorithm& algorithm : named_algorithms()) {
    const ParsedConfig parsed = parse_config_text(
        "[run]\npeers = 8\nalgorithm = \"" + std::string(algorithm.name) + "\"\n", "a.toml");
    INFO(algorithm.name);
    for (const Problem& problem : parsed.problems) {
      // For example, an algorithm with a momentum of its own refuses an optimiser with momentum.
      UNSCOPED_INFO(to_string(problem));
    }
    REQUIRE(parsed.problems.empty());
    const Config& config = parsed.config;
    if (config.run.mode != ModeKind::mixing) continue;
    Simulator::Options options =
        rounds_world(small_world(8, seed), config.mixing.rule, config.mixing.period_steps);
    options.node.course.steps = 400;
    options.node.mixing.state_elements = options.scenario.dimension;
    QuadraticSpec spec = agreeable(options.scenario.dimension);
    spec.learning_rate = 0.05;
    // Momentum makes steps ten times as long, so the learning rate is a tenth.
    if (traits_of(config.mixing.rule).plain_steps) spec.learning_rate = 0.005;
    Simulator world(options, mixing([&](std::size_t p) { return quadratic_workload(spec, p); },
                                    config.mixing.rule, seed));
    world.run(Time(5min));
    const std::vector<double> optimum = common_optimum(spec, 8);
    for (PeerNumber number = 0; number < world.size(); ++number) {
      const auto& work = world.peer(number).work;
      REQUIRE(work);
      CHECK(work->step() == 400);
      double squares = 0;
      for (std::size_t k = 0; k < optimum.size(); ++k) {
        squares += std::pow(work->parameters()[k] - optimum[k], 2);
      }
      // The peers begin at a distance of 4 from the optimum.
      CHECK(std::sqrt(squares) < 1.6);
    }
  }
}

}  // namespace gv
