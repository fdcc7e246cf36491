// The modes to which a running swarm can switch, and the decisions of its council.
#include "peer/config/switched_mode.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <optional>
#include <string>
#include <variant>

#include "consensus/membership/statement.hpp"
#include "peer/config/node_options.hpp"
#include "peer/modes/switch_council.hpp"
#include "tests/signers.hpp"

namespace gv {
namespace {

Config running() {
  Config config;
  config.run.peers = 4;
  config.train.batch = 32;
  config.train.optimizer.kind = OptimizerKind::sgd;
  config.gossip.period_steps = 7;
  return config;
}

std::string refusal(const Config& config, const std::string& settings) {
  const SwitchedConfig switched = switched_config(config, settings);
  return switched.problems.empty() ? "" : to_string(switched.problems.front());
}

SwitchPlanner planner() {
  return {[](std::string_view settings) { return settings == "bad" ? "it is bad" : ""; },
          [](std::string_view settings) { return settings != "gossip"; }};
}

Answer answer(const SettingsRevision& goes_by, const SettingsRevision& heard, std::uint64_t step,
              std::uint64_t samples = 0) {
  Answer answer;
  answer.version = {
      .step = step, .samples = samples, .lineage = SwitchPlanner::lineage_of(goes_by)};
  answer.host = 9;
  answer.revision = heard;
  return answer;
}

using Outcome = SwitchPlanner::Outcome;
Outcome outcome_of(const Generation& council) { return static_cast<Outcome>(council.algorithm); }

const SettingsRevision first{1, "allreduce"};

/// One peer's council. The test plays the other two peers.
struct Council {
  Council() {
    PushPull table;
    for (const PeerId peer : {other, third}) {
      Member member{.id = peer, .name = "peer", .address = "virtual:1", .layout_hash = layout};
      restate(member, signer_of(peer));
      table.members.push_back(member);
    }
    members.receive(now, other, table, out);
  }

  void tick_for(Duration time) {
    constexpr Duration every = std::chrono::milliseconds(100);
    for (const Time end = now + time; now < end; now += every) {
      council.tick(now, true, standing, members, out);
    }
  }
  /// The newest ballot that the council has proposed to that peer.
  std::optional<GenerationId> asked(PeerId peer) const {
    std::optional<GenerationId> ballot;
    for (const Outgoing& outgoing : out.messages) {
      const auto* propose = std::get_if<Propose>(&outgoing.message);
      if (propose != nullptr && outgoing.to == peer) ballot = propose->ballot;
    }
    return ballot;
  }
  void promise(PeerId peer, const Answer& says) {
    REQUIRE(asked(peer));
    council.receive(now, peer, Promise{*asked(peer), says}, standing, members, out);
  }

  static constexpr PeerId self{1};
  static constexpr PeerId other{2};
  static constexpr PeerId third{3};
  static constexpr std::uint64_t layout = 33;
  const SwitchCouncil::Standing standing{.step = 10, .samples = 100};
  Time now{};
  Effects out;
  Membership members{{.id = self, .name = "us", .address = "virtual:0", .layout_hash = layout},
                     {self, other, third},
                     {},
                     signer_of(self),
                     Rng(1)};
  SwitchCouncil council{
      self, 7, {.layout_hash = layout, .present = {}, .alike = 9}, planner(), signer_of(self)};
};

}  // namespace

TEST_CASE("a switch keeps all settings but those of the mode", "[unit]") {
  const SwitchedConfig switched =
      switched_config(running(), settings_of("allreduce") + "allreduce.algorithm = \"ring\"\n");
  REQUIRE(switched.problems.empty());
  CHECK(switched.config.run.mode == ModeKind::allreduce);
  CHECK(switched.config.allreduce.algorithm == ReduceAlgorithm::ring);
  CHECK(switched.config.train.batch == 32);
  // The learner cannot change the size of its batches.
  CHECK_FALSE(switched.config.allreduce.shares_by_speed);
  const SwitchedConfig back = switched_config(running(), settings_of("gossip"));
  REQUIRE(back.problems.empty());
  CHECK(back.config.gossip.period_steps == 7);
}

TEST_CASE("a switch may name an algorithm, which brings its mode", "[unit]") {
  const SwitchedConfig switched = switched_config(running(), settings_of("choco"));
  REQUIRE(switched.problems.empty());
  CHECK(switched.config.run.mode == ModeKind::mixing);
  CHECK(switched.config.mixing.rule.memory == MixMemory::difference);
}

TEST_CASE("a switch that a swarm cannot make is refused with its reason", "[unit]") {
  const std::string lockstep = settings_of("allreduce");
  CHECK(refusal(running(), lockstep).empty());
  CHECK_THAT(refusal(running(), settings_of("pipeline")), Catch::Contains("no peer has a whole"));
  CHECK_THAT(refusal(running(), lockstep + "train.batch = 8\n"),
             Catch::Contains("cannot be switched while peers run"));
  CHECK_THAT(refusal(running(), lockstep + "gossip.alpha = 0.1\n"),
             Catch::Contains("cannot be switched while peers run"));
  CHECK_THAT(refusal(running(), lockstep + "allreduce.compression = \"nothing\"\n"),
             Catch::Contains("allreduce.compression"));
  CHECK_THAT(refusal(running(), settings_of("diloco")), Catch::Contains("outer step"));
  Config leased = running();
  leased.data.partition.kind = PartitionKind::leased;
  CHECK_THAT(refusal(leased, lockstep), Catch::Contains("leased"));
  Config population = running();
  population.population.every_steps = 100;
  CHECK_THAT(refusal(population, lockstep), Catch::Contains("hyper-parameters"));
}

TEST_CASE("no switch changes what protects peers from hostile ones", "[unit]") {
  Config config = running();
  config.gossip.norm_cap = 20;
  const std::string gossip = "run.mode = \"gossip\"\n";
  for (const char* const weaker :
       {"gossip.norm_cap = 0", "gossip.clip_factor = 0", "gossip.clip_radius = 1e9",
        "gossip.quarantine_s = 0", "gossip.offences_max = 1000", "gossip.\"norm_cap\" = 0"}) {
    CAPTURE(weaker);
    CHECK_FALSE(refusal(config, gossip + weaker + "\n").empty());
  }
  CHECK_THAT(refusal(config, gossip + "gossip.norm_cap = 0\n"),
             Catch::Contains("gossip.norm_cap: protects peers from hostile ones"));
  CHECK(switched_config(config, settings_of("ad_psgd")).config.gossip.norm_cap == 20);
  CHECK_FALSE(refusal(config, settings_of("population")).empty());
  config.run.mode = ModeKind::mixing;
  config.mixing.rule.guard.kind = GuardKind::median;
  CHECK(refusal(config, settings_of("d_psgd")).empty());
  CHECK(switched_config(config, settings_of("d_psgd")).config.mixing.rule.guard.kind ==
        GuardKind::median);
  CHECK_FALSE(refusal(config, settings_of("d_psgd") + "mixing.guard = \"none\"\n").empty());
}

TEST_CASE("a switch leaves learners as they were made", "[unit]") {
  CHECK_THAT(refusal(running(), settings_of("allreduce") + "allreduce.shares = \"by_speed\"\n"),
             Catch::Contains("allreduce.shares: the learners were made for batches of one size"));
  const SwitchedConfig named = switched_config(running(), settings_of("power_sgd"));
  REQUIRE(named.problems.empty());
  CHECK_FALSE(named.config.allreduce.shares_by_speed);
  Config by_speed = running();
  by_speed.run.mode = ModeKind::allreduce;
  by_speed.allreduce.shares_by_speed = true;
  CHECK(refusal(by_speed, settings_of("allreduce")).empty());
  // Some algorithms name an optimiser, but a learner keeps its own, whose state is in its
  // checkpoints.
  Config config = running();
  config.train.optimizer.kind = OptimizerKind::nesterov;
  const SwitchedConfig switched = switched_config(config, settings_of("hogwild"));
  REQUIRE(switched.problems.empty());
  CHECK(switched.config.train.optimizer.kind == OptimizerKind::nesterov);
  CHECK(switched.config.train.threads == config.train.threads);
  CHECK_THAT(refusal(config, settings_of("dgc")), Catch::Contains("momentum"));
}

TEST_CASE("a switch to what treats buffers of a program's model as gradients is refused",
          "[unit]") {
  const ModelFacts with_buffers{.has_buffers = true};
  for (const ModelFacts& model : {ModelFacts{}, with_buffers}) {
    const NodeOptions node = node_options(running(), model, {});
    const auto refuses = [&](const std::string& settings) {
      const Problems problems = node.read_switch(settings).problems;
      const std::string why = problems.empty() ? "" : to_string(problems.front());
      return why.find("has buffers that are averaged") != std::string::npos;
    };
    CHECK_FALSE(refuses(settings_of("allreduce")));
    CHECK_FALSE(refuses(settings_of("d_psgd")));
    CHECK(refuses(settings_of("allreduce") + "allreduce.one_bit = true\n") == model.has_buffers);
    CHECK(refuses(settings_of("gradient_tracking")) == model.has_buffers);
    // A switch between rules of mixing does not change the mode.
    const Problems of_rule = node.mixing.read_revision(settings_of("async_downpour")).problems;
    CHECK(of_rule.empty() == !model.has_buffers);
  }
}

TEST_CASE("peers with other settings of training cannot work in step with us", "[unit]") {
  Config other = running();
  other.gossip.period_steps = 9;
  CHECK(alike_in_step(other) == alike_in_step(running()));
  other.run.mode = ModeKind::allreduce;
  CHECK(alike_in_step(other) == alike_in_step(running()));
  other.train.schedule.learning_rate *= 2;
  CHECK(alike_in_step(other) != alike_in_step(running()));
}

TEST_CASE("a council goes on at the step of the first, but no invented one", "[unit]") {
  Answers answers{{PeerId{1}, answer({}, first, 90, 3000)},
                  {PeerId{2}, answer({}, {}, 110, 3100)},
                  {PeerId{3}, answer({}, {}, 100, 3050)}};
  Generation council = *planner().plan(answers, nullptr);
  CHECK(outcome_of(council) == Outcome::switches);
  CHECK(council.version.step == 110);
  CHECK(council.version.samples == 3050);
  CHECK(council.sources == council.order);
  answers[PeerId{3}].version.step = 1'000'000;
  council = *planner().plan(answers, nullptr);
  CHECK(council.version.step == 220);
}

TEST_CASE("a peer that comes when others have switched has no mean to wait for", "[unit]") {
  const Answers answers{{PeerId{1}, answer(first, first, 90)},
                        {PeerId{2}, answer({}, {}, 10)},
                        {PeerId{3}, answer(first, first, 100)}};
  const Generation council = *planner().plan(answers, nullptr);
  CHECK(council.sources == std::vector<PeerId>{PeerId{1}, PeerId{1}, PeerId{3}});
}

TEST_CASE("a council does not switch a swarm that is about to end or is not alike", "[unit]") {
  Answers answers{{PeerId{1}, answer({}, first, 90)}, {PeerId{2}, answer({}, {}, 90)}};
  answers[PeerId{2}].ends = true;
  CHECK(outcome_of(*planner().plan(answers, nullptr)) == Outcome::ends);
  answers[PeerId{2}].ends = false;
  answers[PeerId{2}].host = 10;
  CHECK(outcome_of(*planner().plan(answers, nullptr)) == Outcome::differs);
  answers[PeerId{1}].revision.settings = "gossip";
  CHECK(outcome_of(*planner().plan(answers, nullptr)) == Outcome::switches);
}

TEST_CASE("a switch that was refused once is not made when others come", "[unit]") {
  const SettingsRevision second{2, "mixing"};
  Answers answers{{PeerId{1}, answer(first, second, 90)}, {PeerId{2}, answer({}, {}, 10)}};
  answers[PeerId{1}].speed = 2;
  CHECK(outcome_of(*planner().plan(answers, nullptr)) == Outcome::refused);
  // Revision 3 is a different switch.
  answers[PeerId{2}].revision = {3, "gossip"};
  CHECK(outcome_of(*planner().plan(answers, nullptr)) == Outcome::switches);
  // A peer that was cut off may already have switched, and a switch cannot be undone.
  answers[PeerId{2}] = answer(second, second, 100);
  CHECK(outcome_of(*planner().plan(answers, nullptr)) == Outcome::switches);
}

TEST_CASE("modes of different switches do not read each other's ballots", "[unit]") {
  const auto newest = [](const BallotRange& range) { return range.first + range.size - 1; };
  CHECK(ballots_of_mode({}).first == 0);
  for (const std::uint64_t number : {std::uint64_t{1}, std::uint64_t{2}, switches_max}) {
    for (const char* settings : {"", "allreduce", "gossip", "mixing", "x", "y"}) {
      const BallotRange range = ballots_of_mode({number, settings});
      CHECK(newest(ballots_of_mode({})) < range.first);
      CHECK(newest(ballots_of_mode({number - 1, "mixing"})) < range.first);
      CHECK(newest(range) < first_ballot_of_meetings);
    }
  }
  CHECK_FALSE(ballots_of_mode({1, "gossip"}).contains(ballots_of_mode({1, "mixing"}).first));
}

TEST_CASE("who restarts after its answer to a council is told of the switch by another", "[unit]") {
  const bool restarts = GENERATE(false, true);
  INFO("restarts " << restarts);
  Council ours;
  ours.council.ask(ours.now, first.settings, ours.standing, ours.members, ours.out);
  ours.tick_for(std::chrono::milliseconds(100));
  ours.promise(Council::third, answer({}, {}, 10));
  REQUIRE(ours.council.is_deciding());
  if (restarts) ours.council.peer_gone(Council::third);
  ours.promise(Council::other, answer({}, {}, 10));
  const auto decision = ours.council.take_decision();
  REQUIRE(decision);
  CHECK(decision->outcome == Outcome::switches);
  CHECK(ours.council.together() == (restarts ? 2U : 3U));
  ours.council.go_by(decision->revision);
  ours.out = {};
  ours.tick_for(std::chrono::milliseconds(1500));
  CHECK(ours.asked(Council::third).has_value() == restarts);
  if (!restarts || !ours.asked(Council::third)) return;
  ours.promise(Council::other, answer(first, first, 10));
  ours.promise(Council::third, answer({}, {}, 1));
  CHECK(ours.council.take_decision());
  CHECK(ours.council.together() == 3);
  ours.out = {};
  ours.tick_for(std::chrono::seconds(5));
  CHECK_FALSE(ours.asked(Council::third));
}

TEST_CASE("only peers that continue at the same step vote about a switch's mean", "[unit]") {
  const SwitchCouncil::Decision decision{.revision = {1, "mixing"}, .step = 67, .samples = 500};
  const BallotRange range = SwitchCouncil::ballots_of_mean(decision);
  CHECK(range.first >= first_ballot_of_meetings);
  CHECK(range.first + range.size - 1 < first_ballot_of_council);
  CHECK(range.contains(range.first + 5));
  SwitchCouncil::Decision other = decision;
  other.is_late = true;
  CHECK(SwitchCouncil::ballots_of_mean(other).first == range.first);
  other.step = 68;
  CHECK_FALSE(range.contains(SwitchCouncil::ballots_of_mean(other).first + 5));
  other = decision;
  other.samples = 501;
  CHECK_FALSE(range.contains(SwitchCouncil::ballots_of_mean(other).first + 5));
  other = decision;
  other.revision.number = 2;
  CHECK_FALSE(range.contains(SwitchCouncil::ballots_of_mean(other).first + 5));
}

TEST_CASE("what no sound peer would say in a council has a reason", "[unit]") {
  CHECK(planner().problem(SettingsRevision{}).empty());
  CHECK(planner().problem(first).empty());
  CHECK(planner().problem(SettingsRevision{1, "bad"}) == "it is bad");
  CHECK_FALSE(planner().problem(SettingsRevision{switches_max + 1, "x"}).empty());
  Generation council{.version = {.step = 1}};
  CHECK(planner().problem(council).empty());
  council.algorithm = 4;
  CHECK_FALSE(planner().problem(council).empty());
  council = {.version = {.step = 0}};
  CHECK_FALSE(planner().problem(council).empty());
}

}  // namespace gv
