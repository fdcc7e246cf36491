// Every setting reaches the options of the component that it configures, and a config survives a
// round trip.
#include "peer/config/node_options.hpp"

#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "peer/config/algorithms.hpp"
#include "peer/config/task.hpp"
#include "tests/peer/config_texts.hpp"

namespace gv {
namespace {

static_assert(std::is_same_v<decltype(Config{} == Config{}), bool>);

/// The options that come from settings: those of pair exchanges, those of membership, and some that
/// all modes share.
auto options_of_pairs(const NodeOptions& node) {
  const GossipOptions& gossip = node.gossip;
  const PairExchange::Options& exchange = gossip.exchange;
  const Membership::Options& membership = node.membership;
  return std::tuple(
      node.mode, node.course.run_seed, node.course.save_every_steps, node.course.wait_for_peers,
      node.course.wait_max, node.course.linger, gossip.period_steps, gossip.trigger,
      gossip.target_spread, gossip.pairing, gossip.topology, gossip.centre_rests, gossip.alpha,
      gossip.alpha_with_learning_rate, gossip.catch_up_periods, exchange.codec,
      exchange.clip_radius, exchange.clip_factor, exchange.norm_cap, exchange.answer_deadline,
      exchange.progress_deadline, exchange.quarantine, exchange.offences_max,
      node.course.work.weigh_max, gossip.population.every_steps, gossip.population.held_out,
      gossip.population.spread, gossip.population.select, membership.probe_period,
      membership.probe_timeout, membership.indirect_probes, membership.suspicion_min,
      membership.suspicion_max_factor, membership.push_pull_period, membership.forget_dead_after);
}

auto options_of_generations(const NodeOptions& node) {
  const AllReduceOptions& allreduce = node.allreduce;
  const PipelineOptions& pipeline = node.pipeline;
  return std::tuple(allreduce.local, allreduce.algorithm, allreduce.compression,
                    allreduce.bucket_elements, allreduce.measures_noise, node.mixing.rule,
                    node.mixing.period, node.mixing.catch_up_rounds, pipeline.kind, pipeline.router,
                    pipeline.consensus, pipeline.micro_batches, pipeline.accumulate, pipeline.group,
                    pipeline.plan, pipeline.pins, pipeline.ahead, pipeline.mix_alpha, pipeline.rule,
                    pipeline.mix_every, pipeline.copy_every);
}

}  // namespace

TEST_CASE("parts have the defaults of the config that says nothing", "[unit]") {
  Config config;
  config.checkpoint.every_steps = 0;  // Only this default differs between config and components.
  const NodeOptions made = node_options(config, {}, {});
  CHECK(options_of_pairs(made) == options_of_pairs({}));
  CHECK(options_of_generations(made) == options_of_generations({}));
}

TEST_CASE("only where data are of one kind may a slow peer take hardly any of a batch", "[unit]") {
  Config config;
  config.train.batch = 30;
  const auto least = [&config](PartitionKind kind) {
    config.data.partition.kind = kind;
    return node_options(config, {}, {}).allreduce.batch_min;
  };
  CHECK(least(PartitionKind::iid) == 1);
  CHECK(least(PartitionKind::leased) == 1);
  CHECK(least(PartitionKind::by_label) == 8);
  CHECK(least(PartitionKind::dirichlet) == 8);
  CHECK(least(PartitionKind::shared) == 8);
}

TEST_CASE("every setting of a pure part reaches its options", "[unit]") {
  const std::set<std::string> sections{"gossip", "population", "allreduce",
                                       "mixing", "pipeline",   "membership"};
  const std::set<std::string> of_the_cut{"pipeline.stages", "pipeline.ends", "pipeline.memory_mb",
                                         "pipeline.recompute"};
  const std::set<std::string> of_the_learner{"population.vary_weight_decay",
                                             "population.vary_batch", "population.vary_alpha",
                                             "population.vary_period"};
  const NodeOptions before = node_options({}, {}, {});
  for (const Setting<Config>& setting : config_settings()) {
    if (!sections.contains(std::string(setting.section)) || of_the_cut.contains(setting.path()) ||
        of_the_learner.contains(setting.path())) {
      continue;
    }
    const NodeOptions made = node_options(with_another(setting), {}, {});
    INFO(setting.path());
    // The batch itself is not among the options. The batch limit, a multiple of it, is compared
    // instead.
    CHECK((options_of_pairs(made) != options_of_pairs(before) ||
           options_of_generations(made) != options_of_generations(before) ||
           made.allreduce.batch_max != before.allreduce.batch_max));
  }
}

TEST_CASE("each peer could measure its model between two sittings, and makes a step", "[unit]") {
  Config config;
  config.run.peers = 8;
  config.run.target = 0.9;
  config.run.epochs = 100;
  config.train.batch = 50;
  const auto every = [&](std::uint64_t all_data, std::uint64_t test_data) {
    return node_options(config, {}, {.all_data = all_data, .test_data = test_data})
        .course.work.target.every;
  };
  CHECK(every(60'000, 1000) == 60'000);
  CHECK(every(60'000, 10'000) == 80'000);
  CHECK(every(100, 10) == 400);
  config.run.target_every = 2.5;
  CHECK(every(60'000, 10'000) == 150'000);
  // A short run would end before its first sitting.
  config.run.target_every = 1;
  config.run.epochs = 10;
  CHECK(every(60'000, 10'000) == 75'000);
  config.run.epochs = 1;
  CHECK(every(60'000, 1000) == 7'500);
  CHECK(node_options(config, {}, {}).course.work.target.value == 0.9);
}

TEST_CASE("a pipeline has a common budget if its time may be over before its runs", "[unit]") {
  const ParsedConfig parsed = parse_config_text(
      "[run]\nmode = \"pipeline\"\nwall_s = 5.0\n[pipeline]\nstages = 2\n", "a.toml");
  REQUIRE(parsed.problems.empty());
  Config config = parsed.config;
  const auto budget = [&](std::uint64_t steps) {
    return node_options(config, {}, {.steps = steps, .all_data = 1000}).course.work.budget;
  };
  CHECK(budget(7) == 7 * config.pipeline.micro_batches * config.train.batch);
  CHECK(budget(std::uint64_t{1} << 60) <= std::uint64_t{1} << 62);
  config.run.wall = {};
  CHECK(budget(7) == 0);
}

TEST_CASE("epochs of more samples than can be counted are a budget of the most samples", "[unit]") {
  constexpr std::uint64_t all_data = std::numeric_limits<std::uint64_t>::max();
  constexpr std::uint64_t most = std::uint64_t{1} << 62;
  Config config = sound("[run]\nepochs = 100000\n[train]\nbatch = 64\n");
  CHECK(swarm_budget(config, all_data) == most);
  CHECK(steps_of(config, all_data) == most / 64);
  config.run.epochs = 0.01;
  CHECK(swarm_budget(config, 1000) == 10);
  CHECK(swarm_budget(config, 10) == 1);
}

TEST_CASE("a pipeline with a target has a budget, tests, and a sitting after a run at most",
          "[unit]") {
  const ParsedConfig parsed = parse_config_text(
      "[run]\nmode = \"pipeline\"\ntarget_accuracy = 0.9\n[pipeline]\nstages = 2\n", "a.toml");
  REQUIRE(parsed.problems.empty());
  Config config = parsed.config;
  const std::uint64_t run = config.pipeline.micro_batches * config.train.batch;
  std::uint64_t steps = 7;
  const auto options = [&](std::uint64_t all_data, std::uint64_t tests) {
    return node_options(config, {}, {.steps = steps, .all_data = all_data, .test_data = tests});
  };
  CHECK(options(1000, 50).course.work.budget == 7 * run);
  steps = 16;
  CHECK(options(1000 * run, 50).course.work.target.every == 2 * run);
  steps = 1'000'000;
  CHECK(options(1000, 50).pipeline.test_samples == 50);
  CHECK(options(100'000, 50).course.work.target.every == 100'000);
  CHECK(options(1, 50).course.work.target.every == run);
  CHECK(options(1, 10 * run).course.work.target.every == 10 * run);
  config.run.target = 0;
  CHECK(options(1000, 50).course.work.budget == 0);
  CHECK(options(1000, 50).pipeline.test_samples == 0);
}

TEST_CASE("a peer with a target has test data to measure its model on", "[unit]") {
  Config config;
  config.run.target = 0.9;
  config.data.kind = DataKind::generated;
  const Task task = load_task(config, 1);
  REQUIRE(task.problems.empty());
  REQUIRE(task.test);
  CHECK(task.test->size() == config.data.generated.test_samples);
  // The initial model knows nothing about the ten classes.
  const double merit = learner_of(task)->test_merit();
  CHECK(merit > 0);
  CHECK(merit < 0.5);
  config.run.target = 0;
  const Task without = load_task(config, 1);
  CHECK_FALSE(without.test);
  CHECK(learner_of(without)->test_merit() == 0);
  config.run.target = 0.9;
  CHECK(task_of(config, *learner_of(without), 1000).problems.front().place ==
        "run.target_accuracy");
}

TEST_CASE("a batch that grows is one that the learner takes in every mode", "[unit]") {
  const ModeKind mode = GENERATE(ModeKind::gossip, ModeKind::mixing, ModeKind::allreduce);
  Config config;
  config.run.mode = mode;
  config.data.kind = DataKind::generated;
  config.train.schedule.kind = ScheduleKind::growing_batch;
  config.train.schedule.step_at = {10};
  config.train.schedule.batch_factor = 2;
  const Task task = load_task(config, 1);
  REQUIRE(task.problems.empty());
  const std::unique_ptr<Learner> learner = learner_of(task);
  learner->set_batch_growth(2);
  CHECK(learner->run_steps(1, {}).predictions == 2 * config.train.batch);
}

TEST_CASE("a config is the same again when it is read from its own text", "[unit]") {
  std::vector<std::string> texts{
      "",
      "[model]\nkind = \"layers\"\n[[model.layers]]\nkind = \"residual\"\nlayers = [{ kind = "
      "\"dense\", units = 32 }]\n[[model.layers]]\nkind = \"dense\"\nunits = 10\n",
      "[run]\nmode = \"pipeline\"\nsteps = 9\n[pipeline]\nends = [2, 5]\nschedule = \"2bw\"\n",
      "[run]\nmode = \"pipeline\"\n[pipeline]\npins = { desk = 1, \"a.b\" = 0 }\n",
      "[run]\nalgorithm = \"diloco\"\n[allreduce]\nouter = \"average\"\nperiod = 8\n"
      "[train]\nschedule = \"step\"\nstep_at = [10, 20]\n",
      "[run]\nmode = \"mixing\"\n[mixing]\nstaleness = -1\n[membership]\nprobe_period_s = 8.11\n"};
  for (const NamedAlgorithm& algorithm : named_algorithms()) {
    texts.push_back("run.algorithm = \"" + std::string(algorithm.name) + "\"\n");
  }
  for (const std::string& text : texts) {
    const ParsedConfig first = parse_config_text(text, "a.toml");
    INFO(text << lines(first.problems) << "\n" << to_toml(first.config));
    const ParsedConfig again = parse_config_text(to_toml(first.config), "a.toml");
    CHECK(again.problems.size() == first.problems.size());
    CHECK(again.config == first.config);
  }
}

TEST_CASE("the stages of a pipeline begin from the run's seed", "[unit]") {
  Config config;
  config.run.mode = ModeKind::pipeline;
  config.run.seed = 7;
  config.run.steps = 10;
  config.data.kind = DataKind::generated;
  config.pipeline.stages = 2;
  const Task task = load_task(config, 3);
  REQUIRE(task.problems.empty());
  REQUIRE(task.stages);
  CHECK(task.stages->trainer.seed == 7);
  CHECK(task.stages->trainer.peer == 3);
}

}  // namespace gv
