// The ranges from which worlds are drawn. Faults are as severe as in TigerBeetle's VOPR: loss up to
// 30 %, duplication up to 50 %, clogs up to 5 s.
#include "sim/virtual/draw.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "consensus/mixing/mix_rule.hpp"
#include "consensus/topology/hosts.hpp"
#include "peer/config/algorithms.hpp"
#include "peer/config/switched_mixing.hpp"
#include "sim/scenario_text.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// The smallest number of peers in a world with hostile peers, because fewer than a third of the
/// peers may be hostile.
constexpr std::size_t peers_with_hostile = 4;

/// The largest number of steps in a round. With more, a world that lasts a minute would have hardly
/// any rounds.
constexpr std::uint64_t round_steps_max = 16;

double between(Rng& rng, double low, double high) { return low + (high - low) * rng.uniform(); }

/// Draws a number between `low` and `high` whose logarithm is uniform.
double spread_between(Rng& rng, double low, double high) {
  return low * std::exp(rng.uniform() * std::log(high / low));
}

/// Rounds to three digits, so that the printed value is exactly the one that was used.
double rounded(double value) { return std::strtod(fmt::format("{:.3g}", value).c_str(), nullptr); }

Duration seconds_between(Rng& rng, double low, double high) {
  return from_seconds(rounded(spread_between(rng, low, high)));
}

template <class T>
T one_of(Rng& rng, const std::vector<T>& choices) {
  return choices[rng.below(choices.size())];
}

PeerSet some_peers(Rng& rng, std::size_t peers) {
  if (rng.chance(0.4)) return {.any = 1 + rng.below(std::max<std::size_t>(1, peers / 2))};
  const std::size_t first = rng.below(peers);
  return {.ranges = {{first, std::min(peers - 1,
                                      first + rng.below(std::max<std::size_t>(1, peers / 2)))}}};
}

void draw_links(Rng& rng, Scenario& scenario) {
  if (rng.chance(0.3)) return;
  LinkRule everywhere;
  everywhere.quality.latency = seconds_between(rng, 0.0002, 0.05);
  if (rng.chance(0.5)) everywhere.quality.jitter = seconds_between(rng, 0.0001, 0.02);
  if (rng.chance(0.3)) everywhere.quality.bandwidth = rounded(spread_between(rng, 1, 1000));
  if (rng.chance(0.3)) everywhere.quality.reorder = rounded(between(rng, 0, 0.3));
  if (rng.chance(0.3)) everywhere.quality.duplicate = rounded(between(rng, 0, 0.5));
  if (rng.chance(0.2)) everywhere.quality.loss = rounded(between(rng, 0, 0.1));
  scenario.links.push_back(everywhere);
  if (!rng.chance(0.3)) return;
  LinkRule far = everywhere;
  far.from = some_peers(rng, scenario.peers);
  far.from.any = 0;
  if (far.from.ranges.empty()) far.from.ranges = {{0, 0}};
  far.quality.latency = seconds_between(rng, 0.02, 0.3);
  scenario.links.push_back(far);
}

FaultRule draw_fault(Rng& rng, const Scenario& scenario, double length) {
  static const std::vector<FaultKind> kinds = {
      FaultKind::kill,       FaultKind::kill,       FaultKind::restart,   FaultKind::stop,
      FaultKind::stop,       FaultKind::leave,      FaultKind::join,      FaultKind::partition,
      FaultKind::cut,        FaultKind::clog,       FaultKind::slow_link, FaultKind::loss,
      FaultKind::duplicate,  FaultKind::reorder,    FaultKind::corrupt,   FaultKind::slow_cpu,
      FaultKind::clock_jump, FaultKind::clock_rate, FaultKind::disk_full, FaultKind::slow_disk};
  FaultRule rule;
  rule.kind = one_of(rng, kinds);
  rule.at = from_seconds(rounded(between(rng, 0, 0.8) * length));
  rule.peers = some_peers(rng, scenario.peers);
  if (rng.chance(0.5)) rule.to = some_peers(rng, scenario.peers);
  rule.lasts = seconds_between(rng, 0.2, 0.5 * length);
  if (rng.chance(0.5)) rule.every = seconds_between(rng, 1, length);
  switch (rule.kind) {
    case FaultKind::kill:
      if (rng.chance(0.3)) rule.lasts = {};
      break;
    case FaultKind::restart:
    case FaultKind::leave:
    case FaultKind::join:
      rule.lasts = {};
      break;
    case FaultKind::clog:
      rule.lasts = seconds_between(rng, 0.1, 5);
      break;
    case FaultKind::loss:
      rule.probability = rounded(between(rng, 0.01, 0.3));
      break;
    case FaultKind::duplicate:
    case FaultKind::reorder:
      rule.probability = rounded(between(rng, 0.01, 0.5));
      break;
    case FaultKind::corrupt:
      rule.probability = rounded(between(rng, 0.001, 0.05));
      break;
    case FaultKind::slow_link:
      rule.quality.latency = seconds_between(rng, 0.01, 1);
      if (rng.chance(0.5)) rule.quality.bandwidth = rounded(spread_between(rng, 0.1, 100));
      break;
    case FaultKind::slow_cpu:
      rule.factor = rounded(between(rng, 0.05, 0.5));
      break;
    case FaultKind::clock_rate:
      rule.factor = rounded(between(rng, 0.8, 1.2));
      break;
    case FaultKind::clock_jump:
    case FaultKind::slow_disk:
      rule.jump = seconds_between(rng, 0.1, 20);
      break;
    default:
      break;
  }
  if (!has_two_ends(rule.kind)) rule.to = PeerSet::everyone();
  // Only the last peer may join late or leave for good, so that some peer is always present.
  const bool comes_back = rule.kind == FaultKind::leave && rng.chance(0.5);
  if (comes_back) {
    rule.lasts = seconds_between(rng, 0.2, 5);
    rule.every = seconds_between(rng, 1, 10);
  } else if (rule.kind == FaultKind::join || rule.kind == FaultKind::leave) {
    const std::size_t last = scenario.peers - 1;
    rule.peers = {.ranges = {{last, last}}};
    rule.every = {};
  }
  return rule;
}

/// Puts a quarter of all worlds into mode `allreduce`. The other worlds do not depend on the draws
/// made here.
void draw_ring(Rng rng, DrawnWorld& world) {
  if (!rng.chance(0.25)) return;
  world.config.run.mode = ModeKind::allreduce;
  AllReduceConfig& allreduce = world.config.allreduce;
  std::vector<std::optional<ReduceAlgorithm>> algorithms{std::nullopt};
  std::ranges::copy(reduce_algorithms(), std::back_inserter(algorithms));
  allreduce.algorithm = one_of(rng, algorithms);
  // Sometimes there are several buckets and segments, but not too many.
  std::size_t& dimension = world.scenario.dimension;
  if (dimension < 1000 && rng.chance(0.3)) dimension = 500 + rng.below(3000);
  allreduce.bucket_elements = 1024 + rng.below(std::max<std::size_t>(dimension / 2, 1024));
  if (dimension > 60000)
    allreduce.bucket_elements = std::max(allreduce.bucket_elements, dimension / 8);
  // A collective takes about 2 n^2 events and handles n long vectors. Make steps long enough that a
  // world has only a few hundred thousand events, and that a simulated minute takes seconds.
  const auto n = static_cast<double>(world.scenario.peers);
  const double least = std::max(0.003 * n * n, 3e-7 * n * static_cast<double>(dimension));
  world.scenario.step = std::max(world.scenario.step, from_seconds(rounded(least)));
  // A third of these worlds make local steps. In some of them, local steps begin only after a
  // while.
  if (!rng.chance(0.33)) return;
  allreduce.local.period = 2 + rng.below(rng.chance(0.3) ? 63 : 7);
  // A period of local steps takes as long as one step did, or longer if vectors are long.
  const double step = seconds(world.scenario.step) / static_cast<double>(allreduce.local.period);
  world.scenario.step =
      from_seconds(rounded(std::max(step, 6e-8 * n * static_cast<double>(dimension))));
  allreduce.local.outer = rng.chance(0.5) ? OuterKind::average : OuterKind::nesterov;
  if (rng.chance(0.5)) allreduce.local.local_after = rng.below(150);
}

/// In three quarters of the worlds without a pipeline, the swarm shares a budget, which is usually
/// used up before the end. A quarter of the worlds with a shared budget also have a time limit, and
/// half have a target. A third of the worlds with a shared budget have it because of draws from a
/// separate generator, which also decides whether they have leases. The other worlds do not depend
/// on those draws.
void draw_budget(Rng rng, DrawnWorld& world) {
  Rng more = rng.fork("more");
  const bool is_further = !rng.chance(0.5);
  if (is_further && !more.chance(0.5)) return;
  world.config.run.budget = BudgetKind::swarm;
  world.config.gossip.weighs_by_data = rng.chance(0.7);
  const double steps = seconds(world.scenario.until) / seconds(world.scenario.step);
  world.config.run.steps = static_cast<std::uint64_t>(1 + steps * between(rng, 0.1, 1.2));
  Rng clock = rng.fork("clock");
  if (clock.chance(0.25)) {
    world.config.run.wall = from_seconds(between(clock, 0.2, 0.9) * seconds(world.scenario.until));
  }
  Rng judges = rng.fork("target");
  if (judges.chance(0.5)) {
    world.config.run.target = between(judges, 0.3, 0.98);
    // The data have one sample for each peer.
    const auto batch = static_cast<double>(world.config.train.batch);
    world.config.run.target_every = batch * static_cast<double>(4 + judges.below(60));
  }
  const bool may_lease =
      world.config.run.mode != ModeKind::mixing || is_in_step(world.config.mixing.rule);
  if (!may_lease || !(is_further ? more.chance(0.85) : rng.chance(0.5))) return;
  world.config.data.partition.kind = PartitionKind::leased;
  world.config.data.chunk_samples = world.config.train.batch * (1 + rng.below(20));
}

}  // namespace

Config settings_of_worlds() {
  Config config;
  config.run.budget = BudgetKind::peer;
  config.train.schedule.learning_rate = 0.05;
  config.train.optimizer.kind = OptimizerKind::sgd;  // The only optimiser that stand-ins have.
  config.checkpoint.every_steps = 0;
  return config;
}

namespace {

DrawnWorld draw_honest(std::uint64_t seed) {
  Rng rng = Rng(seed).fork("draw");
  DrawnWorld world{.seed = seed};
  Scenario& scenario = world.scenario;
  scenario.peers = rng.chance(0.1) ? 1 + rng.below(2) : 2 + rng.below(rng.chance(0.2) ? 31 : 11);
  scenario.work = rng.chance(0.6) ? WorkKind::time : WorkKind::quadratic;
  // Some models are long enough for several blocks.
  scenario.dimension = rng.chance(0.1) ? 66000 + rng.below(80000) : 1 + rng.below(64);
  if (scenario.dimension > 1000) {
    scenario.work = WorkKind::time;
    scenario.peers = std::min<std::size_t>(scenario.peers, 6);
  }
  scenario.step = seconds_between(rng, 0.002, 0.2);
  scenario.step_jitter = rounded(between(rng, 0, 0.5));
  scenario.save = seconds_between(rng, 0.001, 0.5);
  scenario.noise = rounded(between(rng, 0, 1));
  const double length = rounded(between(rng, 20, 90));
  scenario.until = from_seconds(length);
  if (rng.chance(0.5)) {
    scenario.speeds.push_back(
        {{.ranges = {{0, rng.below(scenario.peers)}}}, rounded(spread_between(rng, 0.1, 3))});
  }
  draw_links(rng, scenario);
  const std::uint64_t faults = rng.chance(0.1) ? 0 : 1 + rng.below(6);
  for (std::uint64_t i = 0; i < faults; ++i) {
    scenario.faults.push_back(draw_fault(rng, scenario, length));
  }

  Config& config = world.config;
  GossipConfig& gossip = config.gossip;
  config.run.seed = rng.below(1000);
  if (rng.chance(0.15)) config.run.steps = 200 + rng.below(2000);
  // Each peer makes about one exchange a second.
  const double steps_per_second = 1 / seconds(scenario.step);
  gossip.period_steps = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(steps_per_second * spread_between(rng, 0.2, 3)));
  gossip.pairing = rng.chance(0.5) ? PairingKind::matching : PairingKind::uniform;
  gossip.alpha = rng.chance(0.4) ? 0.5 : rounded(between(rng, 0.05, 1));
  // Peers that train during an exchange reduce their difference by themselves, to a fraction c from
  // 0 to 1. After the exchange, the fraction is c - 2 alpha. If alpha is above a half, the
  // difference can grow without bound.
  if (scenario.work == WorkKind::quadratic) gossip.alpha = std::min(gossip.alpha, 0.5);
  config.checkpoint.every_steps =
      rng.chance(0.5) ? 0 : static_cast<std::uint64_t>(steps_per_second * between(rng, 1, 20)) + 1;
  config.run.linger = 10s;
  gossip.codec = one_of<Codec>(rng, {Codec::identity, Codec::identity, Codec::fp16, Codec::bf16});
  if (rng.chance(0.4)) gossip.clip_radius = rounded(spread_between(rng, 0.05, 10));
  config.membership.push_pull_period = from_seconds(rounded(between(rng, 2, 10)));
  config.membership.indirect_probes = static_cast<int>(rng.below(4));
  draw_ring(Rng(seed).fork("ring"), world);
  if (config.run.mode == ModeKind::gossip) {
    if (Rng(seed).fork("mode").chance(0.25)) return as_pipeline(std::move(world));
    if (Rng(seed).fork("rounds").chance(0.25)) world = as_mixing(std::move(world));
  }
  draw_budget(Rng(seed).fork("budget"), world);
  return world;
}

/// In a quarter of the gossip worlds, pairs remember models and exchange encoded differences.
void draw_pair_codec(Rng rng, DrawnWorld& world) {
  if (world.config.run.mode != ModeKind::gossip || !rng.chance(0.25)) return;
  GossipConfig& gossip = world.config.gossip;
  gossip.codec = rng.chance(0.5) ? Codec::qsgd8 : Codec{.kind = CodecKind::top_k};
  if (gossip.codec.kind == CodecKind::top_k) {
    gossip.codec_fraction = rounded(spread_between(rng, 0.01, 1));
  }
  gossip.alpha = std::min(gossip.alpha, 0.5);  // A config with a larger alpha is refused.
}

}  // namespace

DrawnWorld draw_world(std::uint64_t seed) {
  DrawnWorld world = draw_honest(seed);
  draw_pair_codec(Rng(seed).fork("pair codec"), world);
  // Use a separate generator, so that worlds without hostile peers do not depend on its draws.
  const bool is_hostile = Rng(seed).fork("hostile").chance(0.25);
  if (is_hostile) world = as_hostile(std::move(world));
  const bool has_tickets = Rng(seed).fork("tickets").chance(0.2);
  if (has_tickets) world = as_tickets(std::move(world));
  const bool switches = Rng(seed).fork("switching").chance(0.1);
  return switches ? as_switching(std::move(world)) : world;
}

std::span<const WorldKind> world_kinds() {
  static constexpr std::array<WorldKind, 5> kinds = {{{"hostile", as_hostile},
                                                      {"mixing", as_mixing},
                                                      {"pipeline", as_pipeline},
                                                      {"switching", as_switching},
                                                      {"tickets", as_tickets}}};
  return kinds;
}

DrawnWorld draw_world(std::uint64_t seed, const std::vector<std::string>& kinds) {
  DrawnWorld world = draw_world(seed);
  for (const std::string& name : kinds) {
    const auto kind = std::ranges::find(world_kinds(), name, &WorldKind::name);
    check(kind != world_kinds().end(), "a kind of worlds is one of the table");
    world = kind->turn(std::move(world));
  }
  return world;
}

DrawnWorld as_tickets(DrawnWorld world) {
  Scenario& scenario = world.scenario;
  const std::size_t peers = scenario.peers;
  if (world.config.run.mode != ModeKind::gossip || peers < peers_with_hostile || scenario.tickets) {
    return world;
  }
  Rng rng = Rng(world.seed).fork("tickets").fork("revocations");
  scenario.tickets = true;
  // Use no shared budget: a revoked peer that has not learnt of its revocation would continue to
  // train, and would use up the budget alone.
  const Config plain = settings_of_worlds();
  if (world.config.run.budget == BudgetKind::swarm) world.config.run.steps = plain.run.steps;
  world.config.data = plain.data;
  world.config.run.budget = plain.run.budget;
  world.config.run.wall = plain.run.wall;
  world.config.run.target = plain.run.target;
  world.config.run.target_every = plain.run.target_every;
  // Peer 0 has the swarm's key, so it must be honest.
  std::erase_if(scenario.saboteurs.ranges, [](const auto& range) { return range.first == 0; });
  const double length = seconds(scenario.until);
  if (rng.chance(0.4)) {
    FaultRule creator{.kind = FaultKind::leave};
    creator.at = from_seconds(rounded(between(rng, 0.2, 0.7) * length));
    creator.peers = {.ranges = {{0, 0}}};
    scenario.faults.push_back(creator);
  }
  // Usually, one of the first three peers revokes the key of one of the later peers.
  const std::uint64_t revocations = rng.below(std::max<std::size_t>(2, peers / 3));
  for (std::uint64_t i = 0; i < revocations; ++i) {
    FaultRule rule{.kind = FaultKind::revoke};
    rule.at = from_seconds(rounded(between(rng, 0.1, 0.95) * length));
    const std::size_t by = rng.below(rng.chance(0.3) ? peers : 3);
    const std::size_t target = rng.chance(0.2) ? rng.below(peers) : 3 + rng.below(peers - 3);
    rule.peers = {.ranges = {{by, by}}};
    rule.to = {.ranges = {{target, target}}};
    scenario.faults.push_back(rule);
  }
  return world;
}

DrawnWorld as_hostile(DrawnWorld world) {
  const std::size_t peers = world.scenario.peers;
  Rng rng = Rng(world.seed).fork("hostile").fork("peers");
  world.scenario.saboteurs = {};
  if (peers < peers_with_hostile) return world;
  std::vector<std::size_t> numbers(peers);
  std::iota(numbers.begin(), numbers.end(), std::size_t{0});
  rng.shuffle(std::span(numbers));
  numbers.resize(1 + rng.below((peers - 1) / 3));
  std::ranges::sort(numbers);
  for (const std::size_t number : numbers) {
    world.scenario.saboteurs.ranges.emplace_back(number, number);
  }
  return world;
}

namespace {

/// Draws any rule, legal or not.
MixRule draw_rule(Rng& rng) {
  MixRule rule;
  rule.topology.kind = topology_kinds[rng.below(topology_kinds.size())];
  rule.topology.lazy = rng.chance(0.2);
  if (rng.chance(0.4)) rule.partners = partner_kinds[rng.below(partner_kinds.size())];
  if (rng.chance(0.5)) rule.kind = mix_kinds[rng.below(mix_kinds.size())];
  if (rng.chance(0.3)) rule.order = MixOrder::combine_then_adapt;
  if (rng.chance(0.3)) rule.memory = mix_memories[rng.below(mix_memories.size())];
  if (rule.memory != MixMemory::none) {
    rule.gamma = 0.2;
    rule.codec.kind = codec_kinds[rng.below(codec_kinds.size())];
    rule.codec.fraction = 0.25;
  }
  if (rng.chance(0.3)) rule.correction = mix_corrections[rng.below(mix_corrections.size())];
  if (rule.kind == MixKind::noloco) rule.momentum = rule.gamma = 0.5;
  if (rng.chance(0.3)) rule.staleness = rng.chance(0.5) ? unbounded_staleness : 1 + rng.below(4);
  if (rng.chance(0.2)) rule.fragments = 1 + rng.below(4);
  if (rng.chance(0.1)) rule.outer = MixOuter::slowmo;
  return rule;
}

/// Draws the number of hosts, if the topology depends on them.
void draw_hosts(Rng rng, MixRule& rule, Scenario& scenario) {
  if (rule.topology.kind != TopologyKind::hosts) return;
  scenario.hosts = static_cast<std::uint32_t>(1 + rng.below(4));
  rule.topology.hosts_every = static_cast<std::uint32_t>(hosts_every_min + rng.below(4));
}

/// In a third of the worlds, peers switch the swarm to other settings, up to three times.
void draw_switches(Rng rng, Config config, Scenario& scenario) {
  if (!rng.chance(0.33)) return;
  config.run.peers = scenario.peers;
  std::vector<std::string_view> names;
  for (const NamedAlgorithm& algorithm : named_algorithms()) {
    const SwitchedMixing switched = switched_mixing(config, revision_settings(algorithm.name));
    const bool is_short = switched.period <= round_steps_max;
    if (switched.problems.empty() && is_short) names.push_back(algorithm.name);
  }
  const double length = seconds(scenario.until);
  for (std::uint64_t i = 0; i <= rng.below(3) && !names.empty(); ++i) {
    FaultRule rule{.kind = FaultKind::switch_to};
    rule.at = from_seconds(rounded(between(rng, 0, 0.9) * length));
    rule.peers = some_peers(rng, scenario.peers);
    rule.algorithm = one_of(rng, names);
    scenario.faults.push_back(std::move(rule));
  }
}

}  // namespace

DrawnWorld as_mixing(DrawnWorld world) {
  Rng rng = Rng(world.seed).fork("rounds").fork("rule");
  world.config.run.mode = ModeKind::mixing;
  world.config.run.budget = BudgetKind::peer;
  world.config.allreduce = {};  // The outer momentum of `allreduce` would be part of every state.
  Scenario& scenario = world.scenario;
  if (scenario.dimension > 1000) scenario.dimension = 1 + rng.below(64);
  // With n peers, a round takes about n messages for each neighbour that a peer has.
  const auto n = static_cast<double>(scenario.peers);
  scenario.step = std::max(scenario.step, from_seconds(rounded(0.001 * n * n)));
  MixingConfig& rounds = world.config.mixing;
  rounds.rule = draw_rule(rng);
  while (!problems_of(rounds.rule, scenario.peers).empty()) rounds.rule = draw_rule(rng);
  draw_hosts(Rng(world.seed).fork("hosts"), rounds.rule, scenario);
  const bool alone = traits_of(rounds.rule).one_by_one;
  rounds.period_steps = alone || rng.chance(0.5) ? 1 : 2 + rng.below(round_steps_max - 1);
  rounds.catch_up_rounds = 4 + rng.below(60);
  draw_switches(Rng(world.seed).fork("switches"), world.config, scenario);
  return world;
}

namespace {

/// Gives a third of the pipelines a target. Judges then measure the model after every few pipeline
/// runs.
void draw_stage_target(Rng rng, DrawnWorld& world) {
  const Config plain = settings_of_worlds();
  world.config.run.target = plain.run.target;
  world.config.run.target_every = plain.run.target_every;
  if (!rng.chance(0.33)) return;
  const Config& config = world.config;
  const auto run = static_cast<double>(config.pipeline.micro_batches * config.train.batch);
  const auto peers = static_cast<double>(world.scenario.peers);
  world.config.run.target = between(rng, 0.2, 0.95);
  world.config.run.target_every = run * static_cast<double>(1 + rng.below(20)) / peers;
}

/// Gives an automatic stage plan to some of the pipelines that can have one.
void draw_plan(Rng rng, PipelineConfig& pipeline) {
  const bool may_plan = is_synchronous(pipeline.schedule) &&
                        pipeline.schedule != PipelineKind::chimera &&
                        pipeline.consensus == StageConsensus::allreduce;
  if (may_plan && rng.chance(0.4)) pipeline.plan = StagePlanKind::automatic;
}

}  // namespace

DrawnWorld as_pipeline(DrawnWorld world) {
  Rng rng = Rng(world.seed).fork("pipeline");
  world.config.run.mode = ModeKind::pipeline;
  world.config.run.budget = BudgetKind::peer;
  world.config.data = settings_of_worlds().data;  // Pipelines do not lease data.
  world.config.checkpoint.every_steps = 0;
  Scenario& scenario = world.scenario;
  scenario.work = WorkKind::time;
  scenario.dimension = 1 + rng.below(rng.chance(0.1) ? 20000 : 64);
  scenario.peers = std::min<std::size_t>(scenario.peers, 8);
  drop_missing_peers(scenario, scenario.peers);
  const auto is_missing = [&](const auto& range) { return range.second >= scenario.peers; };
  for (FaultRule& fault : scenario.faults) {
    std::erase_if(fault.peers.ranges, is_missing);
    std::erase_if(fault.to.ranges, is_missing);
  }
  std::erase_if(scenario.faults, [&](const FaultRule& fault) {
    return fault.peers.is_empty() || fault.to.is_empty();
  });
  for (FaultRule& fault : scenario.faults) {  // Virtual peers' stages have no checkpoints.
    if (fault.kind == FaultKind::leave && fault.lasts > Duration{}) fault.kind = FaultKind::kill;
  }
  PipelineConfig& pipeline = world.config.pipeline = {};
  const std::size_t stages = pipeline.stages = 1 + rng.below(4);
  pipeline.schedule = one_of<PipelineKind>(
      rng, {PipelineKind::gpipe, PipelineKind::one_f_one_b, PipelineKind::zero_bubble,
            PipelineKind::pipedream, PipelineKind::two_bw});
  if (stages % 2 == 0 && rng.chance(0.2)) pipeline.schedule = PipelineKind::chimera;
  if (is_synchronous(pipeline.schedule)) {
    pipeline.router = router_kinds[rng.below(router_kinds.size())];
  }
  if (rng.chance(0.25)) pipeline.consensus = StageConsensus::gossip;
  pipeline.micro_batches = 1 + rng.below(8);
  pipeline.accumulate = stages;
  pipeline.copy_every = 1 + rng.below(10);
  scenario.stage_work.clear();
  for (std::size_t s = 0; s < stages; ++s) scenario.stage_work.push_back(2 + rng.below(5));
  scenario.step = std::max(scenario.step, from_seconds(0.02 * static_cast<double>(stages)));
  pipeline.ahead = rng.below(3);
  Rng clock = Rng(world.seed).fork("stage clock");
  world.config.run.wall = {};
  if (clock.chance(0.25)) {
    world.config.run.wall = from_seconds(between(clock, 0.2, 0.9) * seconds(scenario.until));
  }
  draw_stage_target(Rng(world.seed).fork("stage target"), world);
  Rng by_rule = Rng(world.seed).fork("stage rule");
  if (pipeline.consensus == StageConsensus::gossip && by_rule.chance(0.5)) {
    // At run time, a topology that does not fit the number of replicas is replaced.
    constexpr std::size_t replicas = 4;
    pipeline.consensus = StageConsensus::mixing;
    do {
      world.config.mixing.rule = in_runs(draw_rule(by_rule));
    } while (!problems_of(world.config.mixing.rule, replicas).empty() ||
             world.config.mixing.rule.topology.kind == TopologyKind::hosts);
    pipeline.mix_every = 1 + by_rule.below(3);
  }
  Rng group = Rng(world.seed).fork("group");
  const bool may_share = pipeline.consensus == StageConsensus::allreduce;
  if (may_share && is_synchronous(pipeline.schedule) && group.chance(0.4)) {
    pipeline.group = 2 + group.below(3);
  }
  draw_plan(Rng(world.seed).fork("plan"), pipeline);
  const bool is_hostile = !scenario.saboteurs.ranges.empty();
  return is_hostile ? as_hostile(std::move(world)) : world;
}

std::string to_toml(const DrawnWorld& world) {
  return fmt::format("# seed {}\n", world.seed) + to_toml(world.config) + to_toml(world.scenario);
}

}  // namespace gv
