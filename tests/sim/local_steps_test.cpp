// Local steps with an outer step agree with serial references, and survive deaths, arrivals and
// restarts.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "peer/modes/allreduce.hpp"
#include "peer/node/whole_replica.hpp"
#include "sim/virtual/allreduce_invariants.hpp"
#include "sim/virtual/simulator.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "tests/sim/lockstep_run.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// The result that a swarm's run should have, computed by trainers without a swarm.
std::vector<float> serially(const LockstepRun& run) {
  std::vector<std::unique_ptr<Learner>> trainers;
  for (std::size_t peer = 0; peer < run.specs.size(); ++peer) {
    trainers.push_back(run.learner(peer));
  }
  const std::size_t size = trainers[0]->layout().size();
  const auto rate = static_cast<float>(run.local.outer_learning_rate);
  const auto mu = static_cast<float>(run.local.outer_momentum);
  const auto first = trainers[0]->parameters();
  std::vector<float> model(first.begin(), first.end());
  std::vector<float> velocity(size);
  for (std::uint64_t step = 0; step < run.steps;) {
    std::vector<std::vector<float>> parts(trainers.size(), std::vector<float>(size));
    if (run.local.period == 1 || step < run.local.local_after) {
      for (std::size_t i = 0; i < parts.size(); ++i) trainers[i]->gradient(8, parts[i]);
      const std::vector<float> mean = ring_mean(parts);
      for (const auto& trainer : trainers) trainer->update(mean);
      model.assign(first.begin(), first.end());
      ++step;
      continue;
    }
    const std::uint64_t count = std::min(run.local.period, run.steps - step);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      trainers[i]->run_steps(count);
      for (std::size_t k = 0; k < size; ++k) {
        parts[i][k] = model[k] - trainers[i]->parameters()[k];
      }
    }
    const std::vector<float> mean = ring_mean(parts);
    for (std::size_t k = 0; k < size; ++k) {
      if (run.local.outer == OuterKind::average) {
        model[k] -= mean[k];
      } else {
        velocity[k] = mu * velocity[k] + mean[k];
        model[k] -= rate * (mean[k] + mu * velocity[k]);
      }
    }
    // Each trainer keeps its own optimiser state.
    for (const auto& trainer : trainers) {
      REQUIRE(trainer->restore(model, trainer->optimizer_state()).empty());
    }
    step += count;
  }
  return model;
}

/// Counts how often each peer was asked for each collective, and records the local steps of each
/// outer step.
class Orders : public Watcher {
 public:
  void on_job(const Simulator& world, PeerNumber peer, const Job& job) override {
    const std::uint64_t step = world.peer(peer).node->as<AllReduceMode>()->step();
    if (first_of<task::ComputeGradient>(job.tasks) != nullptr) ++asked[{peer, step}];
    const auto* update = first_of<task::ApplyUpdate>(job.tasks);
    if (update != nullptr && peer == 0) updates.push_back(update->local_steps);
  }
  std::map<std::pair<PeerNumber, std::uint64_t>, int> asked;
  std::vector<std::uint64_t> updates;
};

/// Runs a world, and checks the invariants of the all-reduce.
void holds(Simulator& world, const AllReduceInvariants& invariants, Duration until) {
  world.run(Time(until));
  INFO((invariants.violation() ? invariants.violation()->what : ""));
  CHECK_FALSE(invariants.violation());
}

std::vector<float> parameters(const Simulator& world, PeerNumber peer) {
  const auto values = world.peer(peer).work->parameters();
  return {values.begin(), values.end()};
}

}  // namespace

TEST_CASE("local steps and their outer step are the serial run, bit for bit", "[sim][allreduce]") {
  const std::size_t peers = GENERATE(1, 2, 3, 4);
  const auto kind = GENERATE(OptimizerKind::sgd, OptimizerKind::nesterov, OptimizerKind::adam);
  const auto outer = GENERATE(OuterKind::average, OuterKind::nesterov);
  LockstepRun run(peers, 8, 60, kind);
  // With the cosine schedule each step has its own learning rate. The last of the 60 steps fill
  // only a part of a period.
  for (TrainerSpec& spec : run.specs) spec.schedule.kind = ScheduleKind::cosine;
  run.local = {.period = 7, .outer = outer};
  const std::vector<float> expected = serially(run);
  for (const auto& model : run.in_lockstep(ReduceAlgorithm::ring)) CHECK(model == expected);
}

TEST_CASE("post-local SGD makes steps one by one first and then periods of them",
          "[sim][allreduce]") {
  LockstepRun run(3, 8, 50, OptimizerKind::nesterov);
  for (TrainerSpec& spec : run.specs) spec.schedule.kind = ScheduleKind::cosine;
  run.local = {.period = 8, .local_after = 30};
  const std::vector<float> expected = serially(run);
  for (const auto& model : run.in_lockstep(ReduceAlgorithm::ring)) CHECK(model == expected);
  Simulator world(run.options(), run.workloads());
  Orders orders;
  world.watch(orders);
  world.run(Time(10min));
  std::vector<std::uint64_t> wanted(30, 0);
  wanted.insert(wanted.end(), {8, 8, 4});
  CHECK(orders.updates == wanted);
}

TEST_CASE("one local step and the average are the mean gradient, but for rounding",
          "[sim][allreduce]") {
  const std::size_t peers = 4;
  const LockstepRun run(peers, 8, 100, OptimizerKind::sgd);
  std::vector<WholeReplica> locals;
  std::vector<WholeReplica> synchronous;
  for (std::size_t peer = 0; peer < peers; ++peer) {
    locals.emplace_back(run.learner(peer), peer, LocalSteps{.period = 2});
    synchronous.emplace_back(run.learner(peer), peer);
  }
  const auto step = [&](std::vector<WholeReplica>& replicas, std::uint64_t local_steps) {
    std::vector<std::vector<float>> parts;
    for (WholeReplica& replica : replicas) {
      const auto values = std::make_shared<Floats>(replica.learner().parameters().size());
      replica.run({.tasks = {task::ComputeGradient{
                       .samples = 8, .local_steps = local_steps, .values = values}}});
      parts.emplace_back(values->begin(), values->end());
    }
    const std::vector<float> floats = ring_mean(parts);
    const auto mean = std::make_shared<const Floats>(floats.begin(), floats.end());
    for (WholeReplica& replica : replicas) {
      replica.run({.tasks = {task::ApplyUpdate{.values = mean, .local_steps = local_steps}}});
    }
  };
  for (int i = 0; i < 100; ++i) {
    step(locals, 1);
    step(synchronous, 0);
  }
  const auto local = locals[0].learner().parameters();
  CHECK_FALSE(std::ranges::equal(local, synchronous[0].learner().parameters()));
  // The difference between anchor and model has a rounding error of 6e-8 of the parameters in each
  // of 100 steps.
  CHECK(distance(local, synchronous[0].learner().parameters()) < 6e-6);
}

TEST_CASE("DiLoCo on quadratics is what its formulas say", "[sim][allreduce]") {
  const std::size_t peers = 3;
  const std::uint64_t steps = 240;
  const LocalSteps local{.period = 12, .outer = OuterKind::nesterov, .outer_momentum = 0.8};
  const QuadraticSpec spec{.dimension = 16, .noise = 0};
  Simulator::Options options = small_world(peers, 5, spec.dimension);
  options.node.mode = ModeKind::allreduce;
  options.node.course.steps = steps;
  options.node.allreduce.local = local;
  options.node.allreduce.state_elements = 2 * spec.dimension;
  Simulator world(options, [&](std::size_t peer) { return quadratic_workload(spec, peer, local); });
  world.run(Time(10min));
  // A local step contracts the remaining distance by 1 - lr h. The closed form is computed in
  // double.
  for (std::size_t k = 0; k < spec.dimension; ++k) {
    const double h =
        0.1 * std::pow(10.0, static_cast<double>(k + 1) / static_cast<double>(spec.dimension));
    const double left = std::pow(1 - spec.learning_rate * h, 12);
    double x = 0;
    double v = 0;
    for (std::uint64_t step = 0; step < steps; step += 12) {
      double mean = 0;
      for (std::size_t peer = 0; peer < peers; ++peer) {
        mean += (1 - left) * (x - quadratic_optimum(spec, peer)[k]) / peers;
      }
      v = 0.8 * v + mean;
      x -= 0.7 * (mean + 0.8 * v);
    }
    INFO(k);
    // These are 240 steps in single precision, with numbers of size about 1. The outer step
    // amplifies errors by 0.7 / 0.2.
    CHECK(parameters(world, 0)[k] == Approx(x).margin(2e-5));
  }
}

TEST_CASE("a death at any moment leaves the local steps of the others as they are",
          "[sim][allreduce]") {
  LockstepRun run(4, 8, 64, OptimizerKind::adam);
  run.local = {.period = 4, .outer = OuterKind::nesterov};
  for (int moment = 0; moment < 40; ++moment) {
    Simulator::Options options = run.options();
    // There are 16 collectives of 80 ms, and the moments of the kills cover two of them.
    options.scenario.links = {every_link({.latency = 3ms})};
    options.scenario.faults = {
        fault(FaultKind::kill, 600ms + moment * 4ms, just(static_cast<std::size_t>(moment % 4)))};
    Simulator world(options, run.workloads());
    AllReduceInvariants invariants;
    Orders orders;
    world.watch(invariants);
    world.watch(orders);
    INFO("moment " << moment);
    holds(world, invariants, 2min);
    std::set<std::vector<float>> ends;
    for (PeerNumber peer = 0; peer < 4; ++peer) {
      if (static_cast<int>(peer) == moment % 4) continue;
      CHECK(world.peer(peer).work->step() == run.steps);
      ends.insert(parameters(world, peer));
      for (std::uint64_t step = 0; step < run.steps; step += 4) {
        // A peer that was one collective behind downloaded the state instead.
        CHECK(orders.asked[{peer, step}] <= 1);
      }
    }
    CHECK(ends.size() == 1);
  }
}

TEST_CASE("a newcomer takes over anchor and outer momentum", "[sim][allreduce]") {
  LockstepRun run(3, 8, 400, OptimizerKind::adam);
  run.local = {.period = 5, .local_after = 20, .outer = OuterKind::nesterov};
  Simulator::Options options = run.options();
  options.scenario.faults = {fault(FaultKind::join, 2s, just(2))};
  Simulator world(options, run.workloads());
  AllReduceInvariants invariants;
  world.watch(invariants);
  holds(world, invariants, 10min);
  CHECK(world.peer(2).work->step() == run.steps);
  CHECK(parameters(world, 2) == parameters(world, 0));
  // The outer momentum is part of a checkpoint, and is the same at all peers.
  const auto first = image_of(*world.peer(0).work).optimizer.vectors.back();
  CHECK(first.first == "outer_momentum");
  CHECK(std::ranges::any_of(first.second, [](float value) { return value != 0; }));
  CHECK(image_of(*world.peer(2).work).optimizer.vectors.back() == first);
}

TEST_CASE("what is saved or sent while local steps are out is the anchor, and goes on alike",
          "[sim][allreduce]") {
  const auto kind = GENERATE(OptimizerKind::nesterov, OptimizerKind::adam);
  const LockstepRun run(1, 8, 200, kind);
  const LocalSteps local{.period = 6, .outer = OuterKind::nesterov};
  const auto make = [&] { return std::make_unique<WholeReplica>(run.learner(0), 0, local); };
  const auto first = make();
  const std::size_t size = first->parameters().size();
  const auto values = std::make_shared<Floats>(size);
  const auto compute = [&](Replica& replica) {
    return replica.run(
        {.tasks = {task::ComputeGradient{.samples = 8, .local_steps = 6, .values = values}}});
  };
  const auto apply = [&](Replica& replica, const Floats& sum) {
    const auto mean = std::make_shared<const Floats>(sum);
    replica.run({.tasks = {task::ApplyUpdate{.values = mean, .local_steps = 6}}});
  };
  const auto operate = [&](Replica& replica) {
    compute(replica);
    apply(replica, *values);
  };
  for (int i = 0; i < 4; ++i) operate(*first);
  const std::vector<float> anchor(first->parameters().begin(), first->parameters().end());
  const auto before = std::make_shared<Floats>(WholeReplica(run.learner(0), 0, local).state_size());
  first->run({.tasks = {task::ExportState{before}}});
  const JobDone out = compute(*first);
  CHECK(first_of<result::Gradient>(out.results)->samples == 48);
  CHECK(out.score.samples == 48);
  // The replica has taken the steps, but they do not change its state.
  CHECK(std::ranges::equal(first->parameters(), anchor));
  CHECK(first->step() == 24);
  const auto state = std::make_shared<Floats>(before->size());
  first->run({.tasks = {task::ExportState{state}}});
  CHECK(*state == *before);
  // If asked again, for any reason, the replica makes the same steps.
  const Floats once = *values;
  const Image image = image_of(*first);
  compute(*first);
  CHECK(*values == once);
  apply(*first, once);

  const auto resumed = make();
  restore(*resumed, image);
  CHECK(resumed->step() == 24);
  operate(*resumed);
  for (int i = 0; i < 5; ++i) {
    CHECK(std::ranges::equal(resumed->parameters(), first->parameters()));
    operate(*first);
    operate(*resumed);
  }
}

TEST_CASE("a run goes on from a checkpoint with another way of meeting", "[sim][allreduce]") {
  const LockstepRun run(1, 8, 200, OptimizerKind::adam);
  const LocalSteps with{.period = 6, .outer = OuterKind::nesterov};
  WholeReplica momentum(run.learner(0), 0, with);
  WholeReplica plain(run.learner(0), 0);
  CHECK(plain.restore(momentum.parts().front()).empty());
  CHECK(momentum.restore(plain.parts().front()).empty());
  ReplicaPart odd = momentum.parts().front();
  odd.optimizer.vectors.back().second.pop_back();
  CHECK(momentum.restore(odd) == "the outer momentum has another size");
}

TEST_CASE("peers that all go on from their checkpoints go on as if nothing had been",
          "[sim][allreduce]") {
  LockstepRun run(3, 8, 120, OptimizerKind::adam);
  run.local = {.period = 6, .outer = OuterKind::nesterov};
  const auto whole = run.in_lockstep(ReduceAlgorithm::ring);
  // Peers make the first half of the steps. Then new processes, which start only from checkpoints,
  // make the second half.
  std::vector<Image> images;
  {
    Simulator::Options options = run.options();
    options.node.course.steps = 60;
    options.node.allreduce.algorithm = ReduceAlgorithm::ring;
    Simulator world(options, run.workloads());
    world.run(Time(10min));
    for (PeerNumber peer = 0; peer < 3; ++peer) images.push_back(image_of(*world.peer(peer).work));
  }
  Simulator::Options options = run.options();
  options.node.allreduce.algorithm = ReduceAlgorithm::ring;
  const MakeWorkload fresh = run.workloads();
  Simulator world(options, [&](std::size_t peer) {
    auto work = fresh(peer);
    restore(*work, images[peer]);
    return work;
  });
  world.run(Time(10min));
  for (PeerNumber peer = 0; peer < 3; ++peer) CHECK(parameters(world, peer) == whole[0]);
}

TEST_CASE("shares that change give local steps new weights and have none made again",
          "[sim][allreduce]") {
  LockstepRun run(4, 16, 100000, OptimizerKind::nesterov);
  run.local = {.period = 8};
  Simulator::Options options = run.with_a_slow_one();
  options.scenario.faults = {fault(FaultKind::kill, 20s, just(3))};
  Simulator world(options, run.workloads());
  AllReduceInvariants invariants;
  Orders orders;
  world.watch(invariants);
  world.watch(orders);
  holds(world, invariants, 24s);
  const Generation* generation =
      world.peer(0).node->as<AllReduceMode>()->generations()->agreement().generation();
  REQUIRE(generation != nullptr);
  REQUIRE(generation->order.size() == 3);
  CHECK(generation->shares[2] < 16);
  for (const auto& [order, times] : orders.asked) {
    INFO("peer-" << order.first << " at step " << order.second);
    CHECK(times == 1);
  }
}

TEST_CASE("what local steps change travels rounded and sparse as gradients do",
          "[sim][allreduce]") {
  LockstepRun run(4, 8, 800, OptimizerKind::nesterov);
  run.local = {.period = 4, .local_after = 100};
  check_coded(run);
}

TEST_CASE("a slow machine takes a smaller share of local steps as well", "[sim][allreduce]") {
  LockstepRun run(4, 16, 1600, OptimizerKind::nesterov);
  run.local = {.period = 8};
  Simulator::Options options = run.with_a_slow_one();
  Simulator world(options, run.workloads());
  std::vector<std::uint32_t> shares;
  ModelVersion version;
  while (world.step(Time(10min)) && !world.all_ended()) {
    const VirtualPeer& peer = world.peer(0);
    if (!peer.node) continue;
    version = peer.node->as<AllReduceMode>()->generations()->agreement().version();
    const Generation* generation =
        peer.node->as<AllReduceMode>()->generations()->agreement().generation();
    if (generation != nullptr && generation->order.size() == 4) shares = generation->shares;
  }
  REQUIRE(shares.size() == 4);
  CHECK(shares[2] == 5);  // 64 samples at speeds of 4, 4, 1 and 4.
  CHECK(version.step == 1600);
  CHECK(version.samples == 1600 * 64);
  CHECK(run.accuracy(world) > 0.84);
}

}  // namespace gv
