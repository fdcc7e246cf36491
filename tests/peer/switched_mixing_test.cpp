// How settings that arrive while a swarm runs change its rounds of mixing, and which are refused.
#include "peer/config/switched_mixing.hpp"

#include <catch2/catch.hpp>
#include <string>

namespace gv {
namespace {

Config running() {
  Config config;
  config.run.mode = ModeKind::mixing;
  config.run.peers = 6;
  config.mixing.period_steps = 5;
  config.mixing.rule.gamma = 0.5;
  return config;
}

std::string refusal(const std::string& settings, const Config& config = running()) {
  const SwitchedMixing switched = switched_mixing(config, settings);
  return switched.problems.empty() ? "" : to_string(switched.problems.front());
}

}  // namespace

TEST_CASE("a settings revision names an algorithm, and settings over it", "[unit]") {
  const SwitchedMixing switched = switched_mixing(
      running(), revision_settings("choco") + "mixing.codec_fraction = 0.05\nmixing.gamma = 0.1\n");
  REQUIRE(switched.problems.empty());
  CHECK(switched.rule.memory == MixMemory::difference);
  CHECK(switched.rule.codec.fraction == 0.05);
  CHECK(switched.rule.gamma == 0.1);
  CHECK(switched.period == 1);
}

TEST_CASE("what a settings revision leaves out has its default and not what it was before",
          "[unit]") {
  const SwitchedMixing switched = switched_mixing(running(), "mixing.topology = \"complete\"\n");
  REQUIRE(switched.problems.empty());
  CHECK(switched.rule.topology.kind == TopologyKind::complete);
  CHECK(switched.rule.gamma == MixRule().gamma);
  CHECK(switched.period == 1);
}

TEST_CASE("a settings revision without settings goes by the config again", "[unit]") {
  Config config = running();
  config.mixing.rule.topology.kind = TopologyKind::random_regular;
  const SwitchedMixing switched = switched_mixing(config, "");
  REQUIRE(switched.problems.empty());
  CHECK(switched.rule == config.mixing.rule);
  CHECK(switched.period == 5);
}

TEST_CASE("a settings revision that cannot be gone by is refused with its reason", "[unit]") {
  CHECK_THAT(refusal(revision_settings("chocco")), Catch::Contains("choco"));
  CHECK_THAT(refusal(revision_settings("all_reduce")), Catch::Contains("does not work in rounds"));
  CHECK_THAT(refusal("train.learning_rate = 0.1\n"),
             Catch::Contains("cannot be switched while peers run"));
  CHECK_THAT(refusal("mixing.topologie = \"ring\"\n"), Catch::Contains("topology"));
  CHECK_THAT(refusal("mixing.gamma = \n"), !Catch::Equals(""));
  // The settings are checked against the actual number of peers.
  CHECK_THAT(refusal("mixing.topology = \"hypercube\"\n"), Catch::Contains("power of two"));
  // Two kinds of momentum would add up, so this is refused.
  Config config = running();
  config.train.optimizer.kind = OptimizerKind::nesterov;
  CHECK_THAT(refusal(revision_settings("qg_dsgdm"), config), Catch::Contains("momentum"));
  config.train.optimizer.kind = OptimizerKind::sgd;
  // Peers that do not wait cannot tell which part of the leased data is theirs.
  Config leased = running();
  leased.data.partition.kind = PartitionKind::leased;
  CHECK_THAT(refusal("mixing.staleness = -1\n", leased), Catch::Contains("leased"));
  CHECK(refusal("mixing.topology = \"complete\"\n", leased).empty());
  CHECK(refusal(revision_settings("qg_dsgdm"), config).empty());
}

TEST_CASE("a settings revision keeps the guard of the config", "[unit]") {
  Config config = running();
  config.mixing.rule.guard.kind = GuardKind::median;
  const SwitchedMixing switched = switched_mixing(config, revision_settings("d_psgd"));
  REQUIRE(switched.problems.empty());
  CHECK(switched.rule.guard.kind == GuardKind::median);
  for (const char* const weaker : {"mixing.guard = \"none\"\n", "mixing.\"guard\" = \"none\"\n",
                                   "# mixing.guard = \nmixing.gamma = 0.5\n"}) {
    CAPTURE(weaker);
    CHECK_FALSE(switched_mixing(config, weaker).problems.empty());
  }
}

TEST_CASE("a swarm with batch norms does not switch to a rule that spoils their statistics",
          "[unit]") {
  Config config = running();
  config.train.optimizer.kind = OptimizerKind::sgd;
  config.model.layers = {{.kind = LayerKind::batch_norm, .statistics = Statistics::pooled}};
  for (const char* name : {"downpour", "async_downpour", "server_tree", "qg_dsgdm"}) {
    INFO(name);
    CHECK_THAT(refusal(revision_settings(name), config), Catch::Contains("buffers"));
  }
  CHECK(refusal(revision_settings("d_psgd"), config).empty());
}

}  // namespace gv
