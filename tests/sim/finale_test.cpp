// A budget that belongs to the swarm: all peers stop together and end with one model, whatever
// happens to some of them meanwhile.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include "consensus/membership/statement.hpp"
#include "sim/virtual/disk.hpp"
#include "tests/sim/ending.hpp"

namespace gv {

TEST_CASE("a slow peer does not delay the end, and all end with one model", "[sim]") {
  Simulator::Options options = world_of(4, 500);
  options.scenario.speeds.push_back({just(3), 0.1});
  Ending end(options);
  end.run();
  CHECK(end.done.size() == 4);
  CHECK(end.models({0, 1, 2, 3}) == 1);
  // 2000 steps at 155 a second. With a budget of its own the slow peer would take 100 s.
  CHECK(end.first_stop_s() >= 2000 / 155.0);
  CHECK(end.first_stop_s() <= 2000 / 155.0 + 1.5);
  // Each peer reports after every hundredth of the budget, so the others learn of the end a little
  // late.
  CHECK(static_cast<double>(end.trained) >= end.budget_steps());
  CHECK(static_cast<double>(end.trained) <= 1.04 * end.budget_steps());
}

TEST_CASE("a batch that grows works off the budget in fewer steps, and all end with one model",
          "[sim]") {
  const Way way = GENERATE(Way::gossip, Way::rounds, Way::rounds_without_waiting, Way::lockstep);
  Simulator::Options options = world_of(4, 400, way);
  SwarmWorkOptions& work = options.node.course.work;
  // Half of the samples come in batches of 64, a quarter in batches of 128, and a quarter in
  // batches of 256.
  work.growth = {.at = {work.budget / 2, 3 * work.budget / 4}, .factor = 2};
  INFO("way " << static_cast<int>(way));
  Ending end(options);
  end.run();
  CHECK(end.models({0, 1, 2, 3}) == 1);
  CHECK(end.done.size() == 4);
  // Instead of 400 steps, a peer needs 200 + 50 + 25. If peers do not work in step, each learns of
  // the others' progress a hundredth of the budget late. It also keeps one batch size for a period
  // of up to 16 steps.
  const double wanted = 4 * 275.0;
  CHECK(static_cast<double>(end.trained) >= 0.97 * wanted);
  CHECK(static_cast<double>(end.trained) <= 1.12 * wanted);
}

namespace {

/// Records how many samples the peers' gradients are computed from.
struct GradientSamples : Watcher {
  void on_job(const Simulator&, PeerNumber peer, const Job& job) override {
    const auto* gradient = first_of<task::ComputeGradient>(job.tasks);
    if (gradient == nullptr || gradient->of_model) return;
    of_steps[gradient->plan.sum.step][peer] = gradient->samples;
  }
  std::map<std::uint64_t, std::map<PeerNumber, std::size_t>> of_steps;  ///< By step and peer.
};

}  // namespace

TEST_CASE("in lockstep a batch grows for all at the same step, also past a death", "[sim]") {
  // A quarter of the budget takes a second, so one death is before the growth and one after it.
  const Duration dies = GENERATE(as<Duration>{}, 500ms, 2s);
  Simulator::Options options = world_of(4, 200, Way::lockstep);
  SwarmWorkOptions& work = options.node.course.work;
  work.growth = {.at = {work.budget / 4}, .factor = 3};
  INFO("killed at " << seconds(dies) << " s");
  Ending end(with(options, fault(FaultKind::kill, dies, just(1))));
  GradientSamples samples;
  end.world.watch(samples);
  end.run();
  CHECK(end.models({0, 2, 3}) == 1);
  const auto grown = std::ranges::find_if(samples.of_steps, [](const auto& of_step) {
    return std::ranges::any_of(of_step.second,
                               [](const auto& of_peer) { return of_peer.second != batch; });
  });
  REQUIRE(grown != samples.of_steps.end());
  CHECK(grown->second.size() == (dies < 1s ? 3U : 4U));
  for (const auto& [step, of_peers] : samples.of_steps) {
    for (const auto& [peer, count] : of_peers) {
      INFO("step " << step << ", peer " << peer);
      CHECK(count == (step < grown->first ? batch : 3 * batch));
    }
  }
  // All peers together make 200 steps for the first quarter of the samples. For the rest they make
  // 200 steps with three times as many samples. Without growth they would make twice as many steps.
  CHECK(static_cast<double>(end.trained) >= 0.97 * end.budget_steps() / 2);
  CHECK(static_cast<double>(end.trained) <= 1.04 * end.budget_steps() / 2);
}

TEST_CASE("a peer that is killed at any moment of the end leaves the others with one model",
          "[sim]") {
  const Way way = GENERATE(Way::gossip, Way::rounds, Way::rounds_without_waiting, Way::lockstep);
  Ending undisturbed(world_of(4, 200, way));
  undisturbed.run();
  const Time last = std::ranges::max_element(undisturbed.done, {}, [](const auto& one) {
                      return one.second;
                    })->second;
  // In lockstep nothing happens between the last sum and the end.
  const Time stop = way == Way::lockstep ? last : undisturbed.began.at(0);
  for (int i = 0; i <= 60; ++i) {
    // The kills cover the time from half a second before the first stop to half a second after the
    // last peer is done.
    const Duration at = (stop - 500ms).time_since_epoch() + i * ((last - stop) + 1s) / 60;
    Ending end(with(world_of(4, 200, way),
                    fault(FaultKind::kill, at, just(static_cast<std::size_t>(i % 4)))));
    INFO("way " << static_cast<int>(way) << ", killed at " << seconds(at) << " s");
    end.run();
    std::vector<PeerNumber> left;
    for (PeerNumber peer = 0; peer < 4; ++peer) {
      if (peer != static_cast<PeerNumber>(i % 4)) left.push_back(peer);
    }
    CHECK(end.models(left) == 1);
    for (const PeerNumber peer : left) CHECK(end.done.contains(peer));
  }
}

TEST_CASE("in rounds and in lockstep the others work off the budget of one that dies", "[sim]") {
  for (const Way way : {Way::rounds, Way::rounds_without_waiting, Way::lockstep}) {
    Ending end(with(world_of(4, 400, way), fault(FaultKind::kill, 4s, just(1))));
    INFO("way " << static_cast<int>(way));
    end.run();
    CHECK(end.models({0, 2, 3}) == 1);
    // The peer has made 200 of 1600 steps, so the others make 467 each instead of 400. In lockstep
    // the others may finish the last sum to which it contributed.
    CHECK(static_cast<double>(end.trained + (way == Way::lockstep)) >= end.budget_steps());
    CHECK(static_cast<double>(end.trained) <= 1.04 * end.budget_steps());
    CHECK(seconds(end.done.at(0).time_since_epoch()) > 0.02 * 450);
  }
}

TEST_CASE("a slow peer neither ends rounds without waiting nor spoils their end", "[sim]") {
  Simulator::Options options = world_of(4, 500, Way::rounds_without_waiting);
  options.scenario.speeds.push_back({just(3), 0.1});
  Ending end(options);
  end.run();
  CHECK(end.done.size() == 4);
  CHECK(end.models({0, 1, 2, 3}) == 1);
  CHECK(end.first_stop_s() <= 2000 / 155.0 + 1.5);
}

TEST_CASE("a peer that sleeps through the end of rounds or of lockstep wakes up to the model",
          "[sim]") {
  const Way way = GENERATE(Way::rounds, Way::rounds_without_waiting, Way::lockstep);
  for (const Duration at : {2000ms, 3900ms, 4000ms, 4100ms}) {
    Ending end(with(world_of(3, 200, way), fault(FaultKind::stop, at, just(1), 15s)));
    INFO("way " << static_cast<int>(way) << ", asleep from " << seconds(at) << " s");
    end.run();
    CHECK(end.done.contains(1));
    CHECK(end.models({0, 1, 2}) == 1);
  }
}

TEST_CASE("a peer that sleeps through the end wakes up to the common model", "[sim]") {
  for (const Duration at : {2000ms, 3900ms, 4000ms, 4100ms}) {
    Ending end(with(world_of(3, 200), fault(FaultKind::stop, at, just(1), 15s)));
    INFO("asleep from " << seconds(at) << " s");
    end.run();
    CHECK(end.done.contains(1));
    CHECK(end.models({0, 1, 2}) == 1);
  }
}

TEST_CASE("a peer that comes after the end gets the common model and leaves", "[sim]") {
  Simulator::Options options = world_of(4, 200);
  options.wait_for = 3;
  // The others wait for a sleeping peer.
  options.scenario.faults.push_back(fault(FaultKind::stop, 2s, just(1), 18s));
  Ending end(with(options, fault(FaultKind::join, 12s, just(3))));
  end.run();
  CHECK(end.done.at(0) < Time(12s));
  CHECK(end.done.contains(3));
  CHECK(end.models({0, 1, 2, 3}) == 1);
}

TEST_CASE("a peer whose steps take seconds has its part in the mean", "[sim]") {
  Simulator::Options options = world_of(4, 200);
  options.scenario.speeds.push_back({just(3), 0.007});  // This makes steps take three seconds.
  Ending end(options);
  end.run();
  CHECK(end.downloads == 0);
  CHECK(end.models({0, 1, 2, 3}) == 1);
}

TEST_CASE("a newcomer that waits for the mean of the others sleeps meanwhile", "[sim]") {
  for (const Way way : {Way::gossip, Way::rounds_without_waiting}) {
    Simulator::Options options = world_of(5, 160, way);
    options.wait_for = 4;
    options.scenario.speeds.push_back({just(3), 0.007});  // The others wait for peer 3's last step.
    Ending end(with(options, fault(FaultKind::join, 5600ms, just(4))));
    INFO("way " << static_cast<int>(way));
    end.run();
    CHECK(end.began.at(0) < Time(5600ms));
    CHECK(end.done.at(4) > Time(5600ms));
    CHECK(end.models({0, 1, 2, 3, 4}) == 1);
    CHECK(end.world.counts().events < 20000);
  }
}

TEST_CASE("slow peers stop with one that does nearly all of the work", "[sim]") {
  Simulator::Options options = world_of(3, 2000);
  options.scenario.speeds.push_back({{.ranges = {{1, 2}}}, 0.01});
  Ending end(options);
  end.run();
  CHECK(end.done.size() == 3);
  CHECK(end.models({0, 1, 2}) == 1);
  CHECK(end.downloads == 0);
}

TEST_CASE("when the time of the run is over all end with one model", "[sim]") {
  const Way way = GENERATE(Way::gossip, Way::rounds, Way::rounds_without_waiting, Way::lockstep);
  Simulator::Options options = world_of(5, 100'000, way);
  options.wait_for = 4;
  options.node.course.work.wall = 10s;
  INFO("way " << static_cast<int>(way));
  SECTION("without faults") {
    Ending end(options);
    end.run();
    CHECK(end.done.size() == 5);
    CHECK(end.models({0, 1, 2, 3, 4}) == 1);
    for (const auto& [peer, at] : end.done) {
      CHECK(at > Time(9s));
      CHECK(at < Time(12s));
    }
  }
  SECTION("also with one that has come late") {
    Ending end(with(options, fault(FaultKind::join, 6s, just(4))));
    end.run();
    CHECK(end.models({0, 1, 2, 3, 4}) == 1);
    CHECK(end.done.at(4) < Time(12s));
  }
  SECTION("also if one dies just then") {
    const int tenths = GENERATE(range(96, 106));
    INFO("killed at " << tenths / 10.0 << " s");
    Ending end(with(options, fault(FaultKind::kill, tenths * 100ms, just(0))));
    end.run();
    CHECK(end.models({1, 2, 3}) == 1);
  }
}

namespace {

/// A peer that makes false reports about its model. All its parameters have the same value, which
/// never changes.
class Boaster final : public StandIn {
 public:
  Boaster(std::size_t dimension, double says, float value = 0)
      : StandIn(std::vector<float>(dimension, value), 0.1), says_(says) {}
  double validation_loss() override { return 0; }
  double test_merit() override { return says_; }

 private:
  Score step_at(std::uint64_t, std::span<float>) override {
    return {.samples = 1, .predictions = 1};
  }
  Score gradient_at(std::uint64_t, std::span<const float>, std::span<float> out) override {
    std::ranges::fill(out, 0.0F);
    return {.samples = 1, .predictions = 1};
  }

  double says_;
};

/// Sets a target that honest peers reach after fifty steps. The accuracy is judged after every ten
/// steps of each peer.
Simulator::Options with_target(Simulator::Options options) {
  options.node.course.work.target = {.value = 0.5, .every = 10 * options.peers * batch, .seed = 1};
  return options;
}

/// The first `liars` peers report `says` as the accuracy of their models.
MakeWorkload learners_with(const Simulator::Options& options, std::size_t liars, double says) {
  return [options, liars, says, honest = learners(options)](std::size_t peer) {
    if (peer >= liars) return honest(peer);
    std::unique_ptr<Replica> workload = std::make_unique<WholeReplica>(
        std::make_unique<Boaster>(options.scenario.dimension, says), peer, LocalSteps());
    if (options.node.mode == ModeKind::mixing) workload->mix_by(options.node.mixing.rule, 1);
    return workload;
  };
}

}  // namespace

TEST_CASE("when most peers have measured the target all end with one model", "[sim]") {
  const Way way = GENERATE(Way::gossip, Way::rounds, Way::rounds_without_waiting, Way::lockstep);
  Simulator::Options options = with_target(world_of(5, 100'000, way));
  options.wait_for = 4;
  INFO("way " << static_cast<int>(way));
  SECTION("without faults") {
    Ending end(options);
    end.run();
    CHECK(end.models({0, 1, 2, 3, 4}) == 1);
    CHECK(end.means_measured == (way == Way::lockstep ? 0 : 5));
    // Reaching the target takes fifty steps of 20 ms. The target is judged at most once in ten
    // steps.
    CHECK(end.first_done_s() >= 1.0);
    CHECK(end.first_done_s() <= 2.5);
  }
  SECTION("also if a peer is slow") {
    options.scenario.speeds.push_back({just(3), 0.1});
    Ending end(options);
    end.run();
    CHECK(end.models({0, 1, 2, 3, 4}) == 1);
    // If peers wait for each other, all are as slow as the slow one.
    const bool waits = way == Way::rounds || way == Way::lockstep;
    CHECK(end.first_done_s() <= (waits ? 20 : 3));
  }
  SECTION("also if one dies just then") {
    const int tenths = GENERATE(range(8, 20));
    INFO("killed at " << tenths / 10.0 << " s");
    Ending end(with(options, fault(FaultKind::kill, tenths * 100ms, just(0))));
    end.run();
    CHECK(end.models({1, 2, 3, 4}) == 1);
  }
}

TEST_CASE("peers in lockstep that resume a run that had reached its target make no further step",
          "[sim]") {
  const Simulator::Options options = with_target(world_of(3, 100'000, Way::lockstep));
  Simulator first(options, learners(options));
  first.run(Time(options.scenario.until));
  REQUIRE(first.all_ended());
  std::vector<Image> images;
  for (PeerNumber peer = 0; peer < 3; ++peer) {
    const Replica& work = *first.peer(peer).work;
    REQUIRE(work.swarm_note().end);
    CHECK(work.swarm_note().end->is_target_reached);
    images.push_back(image_of(work));
  }
  const auto step_after = [&](double target) {
    Simulator::Options again = options;
    again.node.course.work.target.value = target;
    Simulator world(again, [&, honest = learners(again)](std::size_t peer) {
      std::unique_ptr<Replica> work = honest(peer);
      restore(*work, images[peer]);
      return work;
    });
    world.run(Time(options.scenario.until));
    REQUIRE(world.all_ended());
    return world.peer(0).work->step();
  };
  CHECK(step_after(0.5) == images[0].step);
  CHECK(step_after(0.7) > images[0].step);
}

TEST_CASE("a liar neither ends a run by its target nor delays its end", "[sim]") {
  const Way way = GENERATE(Way::gossip, Way::rounds, Way::rounds_without_waiting, Way::lockstep);
  const double says = GENERATE(0.0, 1.0);
  const Simulator::Options options = with_target(world_of(4, 100'000, way));
  INFO("way " << static_cast<int>(way) << ", the liar says " << says);
  Ending end(options, learners_with(options, 1, says));
  end.run();
  CHECK(end.models({0, 1, 2, 3}) == 1);
  CHECK(end.first_done_s() >= 1.0);
  CHECK(end.first_done_s() <= 6.0);
}

TEST_CASE("a target that most peers never have leaves the end to the budget", "[sim]") {
  const Way way = GENERATE(Way::gossip, Way::rounds, Way::rounds_without_waiting, Way::lockstep);
  const Simulator::Options options = with_target(world_of(4, 300, way));
  INFO("way " << static_cast<int>(way));
  Ending end(options, learners_with(options, 3, 0));
  end.run();
  CHECK(end.models({0, 1, 2, 3}) == 1);
  CHECK(static_cast<double>(end.trained) >= end.budget_steps());
}

TEST_CASE("a peer with a far longer model has no part in the mean, and is named", "[sim]") {
  Simulator::Options options = world_of(4, 100);
  options.node.gossip.mean.norm_cap = 10;
  options.node.gossip.period_steps = 1'000'000;  // Nothing is exchanged before the end.
  Ending end(options, [&](std::size_t peer) {
    const float value = peer == 3 ? 1e6f : 1.0f + 0.1f * static_cast<float>(peer);
    return std::make_unique<WholeReplica>(
        std::make_unique<Boaster>(options.scenario.dimension, 0, value), peer, LocalSteps());
  });
  end.world.run(Time(100s));
  REQUIRE_FALSE(end.laws.violation());
  CHECK(end.models({0, 1, 2}) == 1);
  CHECK(end.done.size() >= 3);
  CHECK(end.refused == std::set<PeerId>{id_of(3)});
  CHECK(end.world.peer(0).work->parameters().front() == Approx(1.1));
}

TEST_CASE("a swarm of one ends with its own model", "[sim]") {
  Ending end(world_of(1, 300));
  end.run();
  CHECK(end.done.size() == 1);
  CHECK(end.trained == 300);
}

TEST_CASE("a peer with the common mean has made true steps and notes how the run has ended",
          "[sim]") {
  const Way way = GENERATE(Way::gossip, Way::rounds, Way::rounds_without_waiting);
  Ending end(world_of(3, 200, way));
  INFO("way " << static_cast<int>(way));
  end.run();
  const auto budget = static_cast<std::uint64_t>(end.budget_steps()) * batch;
  bool is_used_up = false;
  std::set<std::uint64_t> lineages;
  for (const PeerNumber peer : {0, 1, 2}) {
    const Replica& work = *end.world.peer(peer).work;
    // Each peer makes its share of the steps, and may train on until it learns of the end.
    CHECK(work.step() >= 180);
    CHECK(work.step() <= 240);
    const SwarmNote note = work.swarm_note();
    REQUIRE(note.end);
    CHECK(note.end->budget == budget);
    CHECK(note.end->models == 3);
    CHECK(note.samples >= budget * 9 / 10);
    is_used_up |= note.end->is_used_up;
    lineages.insert(note.end->lineage);
  }
  CHECK(is_used_up);
  CHECK(lineages.size() == 1);
}

TEST_CASE("the note beside the common mean counts every chunk that is in the mean as done",
          "[sim]") {
  constexpr std::uint64_t chunk_steps = 8;
  Simulator::Options options = world_of(4, 100'000);
  options.node.course.work.chunk_steps = chunk_steps;
  options.node.course.work.weigh_max = 1;
  options.node.course.work.wall = 10s;
  Ending end(options);
  end.run();
  for (const PeerNumber peer : {0, 1, 2, 3}) {
    const SwarmNote note = end.world.peer(peer).work->swarm_note();
    REQUIRE(note.end);
    REQUIRE(note.ledger);
    // Only the chunk in which the peer stopped is left.
    CHECK(note.ledger->begun.size() <= 1);
    for (const BegunChunk& begun : note.ledger->begun) CHECK(begun.made < chunk_steps);
  }
}

TEST_CASE("peers that are cut off from each other at the end have two models, and know the rest",
          "[sim]") {
  FaultRule cut = fault(FaultKind::partition, 3s, {.ranges = {{0, 1}}}, 60s);
  Ending end(with(world_of(4, 400), cut));
  end.run();
  CHECK(end.models({0, 1}) == 1);
  CHECK(end.models({2, 3}) == 1);
  CHECK(end.done.size() == 4);
}

TEST_CASE("halves that are cut off at the end and meet again end with one model", "[sim]") {
  const Way way = GENERATE(Way::gossip, Way::rounds, Way::rounds_without_waiting, Way::lockstep);
  // Each half is done some seconds before the partition ends, and then waits for the other half.
  const FaultRule cut = fault(FaultKind::partition, 3s, {.ranges = {{0, 1}}}, 18s);
  Ending end(with(world_of(4, 400, way), cut));
  INFO("way " << static_cast<int>(way));
  end.run();
  CHECK(end.done.size() == 4);
  for (const auto& [peer, at] : end.done) CHECK(at < Time(21s));
  CHECK(end.models({0, 1, 2, 3}) == 1);
}

TEST_CASE("peers that each end alone and meet again end with one model", "[sim]") {
  const Way way = GENERATE(Way::gossip, Way::rounds, Way::rounds_without_waiting, Way::lockstep);
  for (const std::size_t peers : {3, 6}) {
    Simulator::Options options = world_of(peers, 600 / peers, way);
    options.node.course.linger = 60s;
    options.scenario.links = {every_link({.latency = 200ms})};
    for (std::size_t peer = 0; peer < peers; ++peer) {
      options.scenario.faults.push_back(fault(FaultKind::partition, 1s, just(peer), 34s));
    }
    INFO("way " << static_cast<int>(way) << ", " << peers << " peers");
    Ending end(options);
    end.run();
    std::vector<PeerNumber> all;
    for (PeerNumber peer = 0; peer < peers; ++peer) all.push_back(peer);
    CHECK(end.done.size() == peers);
    CHECK(end.models(all) == 1);
  }
}

TEST_CASE("a peer that the others believe dead when they end has their model soon", "[sim]") {
  const Way way = GENERATE(Way::gossip, Way::rounds_without_waiting);
  Simulator::Options options = world_of(4, 200, way);
  options.node.course.linger = 3s;
  options.node.membership.probe_period = 200ms;
  options.node.membership.probe_timeout = 100ms;
  options.node.membership.suspicion_min = 500ms;
  options.node.membership.suspicion_max_factor = 2;
  // The others wait for the dead peer as long as they linger, and no longer.
  options = with(options, fault(FaultKind::kill, 2s, just(3)));
  for (const PeerNumber sleeper : {0, 1, 2}) {
    for (int i = 0; i < 8; ++i) {
      const Duration at = 3s + i * 250ms;
      Ending end(with(options, fault(FaultKind::stop, at, just(sleeper), 2s)));
      INFO("way " << static_cast<int>(way) << ", peer " << sleeper << " asleep from " << seconds(at)
                  << " s");
      end.run();
      CHECK(end.done.size() == 3);
      CHECK(end.models({0, 1, 2}) == 1);
    }
  }
}

TEST_CASE("statements that peers signed at the end of an earlier run do not end this one",
          "[sim]") {
  const Way way = GENERATE(Way::gossip, Way::rounds, Way::rounds_without_waiting);
  INFO("way " << static_cast<int>(way));
  Simulator::Options options = world_of(4, 200, way);
  options.scenario.links = {every_link({.latency = 50ms})};
  Ending end(options);
  end.world.run(Time(1ms));  // No peer has heard from another one yet.
  const std::uint64_t budget = options.node.course.work.budget;
  PushPull kept;
  for (const PeerNumber peer : {0, 1, 2}) {
    Member member = end.world.peer(peer).node->membership().self();
    member.version = 1000;
    member.progress = {.step = 200,
                       .phase = Phase::done,
                       .work = WorkDone{.samples = budget / 4, .data = 1, .counted = budget}};
    restate(member, end.world.signer(member.id));
    kept.members.push_back(member);
  }
  for (const PeerNumber to : {0, 1, 2}) {
    PushPull others = kept;
    std::erase_if(others.members, [&](const Member& member) { return member.id == id_of(to); });
    end.world.send_from_outside(id_of(3), to, others);
  }
  end.run();
  CHECK(end.models({0, 1, 2, 3}) == 1);
  CHECK(end.first_stop_s() >= 3.0);  // 200 steps of 20 ms take four seconds.
}

TEST_CASE("what a restarted peer states outranks all that it stated before", "[sim]") {
  const Simulator::Options options =
      with(world_of(3, 500), fault(FaultKind::kill, 1500ms, just(2), 1s));
  Simulator world(options, learners(options));
  world.run(Time(2600ms));
  const Member* known = world.peer(0).node->membership().find(id_of(2));
  REQUIRE(known != nullptr);
  CHECK(known->incarnation >= 2500);  // The milliseconds at which it was started again.
}

TEST_CASE("a peer restarted after the end goes on from the common model and leaves", "[sim]") {
  Simulator::Options options = world_of(3, 200);
  options.scenario.speeds.push_back({just(2), 0.5});
  Ending end(with(options, fault(FaultKind::kill, 1500ms, just(2), 1s)));
  end.run();
  CHECK(end.done.size() == 3);
  CHECK(end.models({0, 1, 2}) == 1);
}

}  // namespace gv
