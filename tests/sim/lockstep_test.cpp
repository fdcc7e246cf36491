// All-reduce peers compute the same as one machine, bit for bit if it adds in the same order.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <deque>
#include <memory>
#include <vector>

#include "consensus/compression/compressors.hpp"
#include "consensus/compression/dgc.hpp"
#include "peer/modes/allreduce.hpp"
#include "peer/modes/collective.hpp"
#include "peer/node/whole_replica.hpp"
#include "sim/virtual/simulator.hpp"
#include "tests/sim/lockstep_run.hpp"
#include "tests/sim/worlds.hpp"
#include "train/built_in_learner.hpp"
#include "train/data/sampler.hpp"
#include "train/optimizer.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

class FirstPeersJobs : public Watcher {
 public:
  void on_job(const Simulator&, PeerNumber peer, const Job&) override { seen += peer == 0; }
  std::uint64_t seen = 0;
};

/// A task that computes a gradient of 8 samples, of which only the largest values are to be sent.
task::ComputeGradient largest_of(const CompressorOptions& options, std::size_t elements) {
  const std::shared_ptr compressor = make_compressor(options, elements);
  return {.samples = 8,
          .compressor = compressor,
          .plan = compressor->plan({.shares = {}}),
          .values = std::make_shared<Floats>(elements)};
}

}  // namespace

TEST_CASE("peers in lockstep are the serial run in the same order of additions, bit for bit",
          "[sim][allreduce]") {
  const std::size_t peers = GENERATE(1, 2, 3, 4, 7);
  const auto kind = GENERATE(OptimizerKind::nesterov, OptimizerKind::adam, OptimizerKind::lars,
                             OptimizerKind::lamb);
  const LockstepRun run(peers, 8, 60, kind);
  std::vector<std::unique_ptr<Learner>> serial;
  for (std::size_t peer = 0; peer < peers; ++peer) serial.push_back(run.learner(peer));
  for (std::uint64_t step = 0; step < run.steps; ++step) {
    std::vector<std::vector<float>> gradients;
    for (const auto& trainer : serial) {
      trainer->gradient(8, gradients.emplace_back(trainer->layout().size()));
    }
    const std::vector<float> mean = ring_mean(gradients);
    for (const auto& trainer : serial) trainer->update(mean);
  }
  for (const std::vector<float>& model : run.in_lockstep(ReduceAlgorithm::ring)) {
    CHECK(std::ranges::equal(model, serial[0]->parameters()));
  }
}

TEST_CASE("peers in lockstep are one peer with the whole batch", "[sim][allreduce]") {
  const std::size_t peers = 4;
  const std::size_t batch = 8;
  const auto algorithm = GENERATE(from_range(reduce_algorithms()));
  LockstepRun run(peers, batch, 200, OptimizerKind::nesterov);
  if (algorithm == ReduceAlgorithm::ring) {
    // The learning rate is for twice this batch, so the linear scaling rule halves it.
    for (TrainerSpec& spec : run.specs) {
      spec.schedule = {.learning_rate = 0.1, .reference_batch = 2 * peers * batch};
    }
  }
  std::vector<Sampler> samplers;
  std::vector<std::uint64_t> positions(peers, 0);
  for (std::size_t peer = 0; peer < peers; ++peer) samplers.emplace_back(run.shards[peer], 3, peer);
  Model model(run.specs[0].model, run.shards[0]->shape, peers * batch);
  std::vector<float> parameters(model.layout().size());
  model.initialise(parameters, Rng(3).fork("model"));
  Optimizer optimizer(run.specs[0].optimizer, parameters.size());
  std::vector<float> gradient(parameters.size());
  for (std::uint64_t step = 0; step < run.steps; ++step) {
    std::vector<float> inputs;
    std::vector<std::int32_t> labels;
    for (std::size_t peer = 0; peer < peers; ++peer) {
      const Batch part = samplers[peer].batch(positions[peer], batch);
      positions[peer] = samplers[peer].after(positions[peer], batch);
      inputs.insert(inputs.end(), part.inputs.begin(), part.inputs.end());
      labels.insert(labels.end(), part.labels.begin(), part.labels.end());
    }
    Rng unused(1);
    model.gradient(parameters, {.inputs = inputs, .labels = labels, .size = peers * batch},
                   gradient, unused);
    optimizer.step(parameters, gradient, 0.05);
  }
  const auto models = run.in_lockstep(algorithm);
  for (const std::vector<float>& its : models) {
    CHECK(its == models.front());
    // The peers and the serial run add the same 32 gradients in float, but in different orders.
    // Each step adds an error of some 1e-7 of the update, which is a hundredth of the parameters.
    // The errors of 200 steps add up.
    CHECK(distance(its, parameters) < 1e-6);
  }
}

TEST_CASE("who waits for nothing but others' part in a sum stays awake", "[sim][allreduce]") {
  const LockstepRun run(3, 8, 50, OptimizerKind::sgd);
  Simulator world(run.options(), run.workloads());
  int awake = 0;
  int asleep = 0;
  while (world.step(Time(10min))) {
    for (PeerNumber number = 0; number < world.size(); ++number) {
      const auto& node = world.peer(number).node;
      if (node) ++(node->should_busy_poll() ? awake : asleep);
    }
  }
  CHECK(world.all_ended());
  CHECK(awake > 0);
  CHECK(asleep > 0);  // Peers sleep while they compute.
}

TEST_CASE("those of one host have places by the order of the generation", "[sim][allreduce]") {
  const LockstepRun run(3, 8, 50, OptimizerKind::sgd);
  Simulator world(run.options(), run.workloads());
  bool all_had_one = false;
  while (world.step(Time(10min))) {
    std::size_t placed = 0;
    for (PeerNumber number = 0; number < world.size(); ++number) {
      const auto& node = world.peer(number).node;
      const std::optional<HostPlace> place = node ? node->host_place() : std::nullopt;
      const Generation* generation =
          node ? node->as<AllReduceMode>()->generations()->agreement().generation() : nullptr;
      if (!place || generation == nullptr || generation->order.size() != 3) continue;
      CHECK(place->peers == 3);
      CHECK(generation->order.at(place->place) == id_of(number));
      ++placed;
    }
    all_had_one = all_had_one || placed == 3;
  }
  CHECK(all_had_one);
}

TEST_CASE("a slow machine takes a smaller share and the mean stays exact", "[sim][allreduce]") {
  LockstepRun run(4, 16, 400, OptimizerKind::nesterov);
  Simulator::Options options = run.with_a_slow_one();
  Simulator world(options, run.workloads());
  std::vector<std::uint32_t> shares;
  while (world.step(Time(10min)) && !world.all_ended()) {
    const VirtualPeer& peer = world.peer(0);
    if (!peer.node) continue;
    const Generation* generation =
        peer.node->as<AllReduceMode>()->generations()->agreement().generation();
    if (generation != nullptr && generation->order.size() == 4) shares = generation->shares;
  }
  // 64 samples at speeds of 4, 4, 1 and 4: the slow peer takes a thirteenth.
  REQUIRE(shares.size() == 4);
  CHECK(shares[0] + shares[1] + shares[2] + shares[3] == 64);
  CHECK(shares[2] == 5);
  // 400 steps of 20 ms take 8 s if all are equally fast, and 32 s if all wait for one at a quarter
  // of the pace. With shares by speed they take 64 / 52 of 8 s.
  CHECK(world.now() < Time(13s));
  CHECK(run.accuracy(world) > 0.84);  // The classes overlap. Equal machines reach 0.86.
}

TEST_CASE("who asks again for a state it has had is not served for ever", "[sim][allreduce]") {
  const LockstepRun run(3, 8, 1000000, OptimizerKind::nesterov);
  Simulator::Options options = run.options();
  options.scenario.faults = {fault(FaultKind::join, 2s, just(2))};
  Simulator world(options, run.workloads());
  FirstPeersJobs jobs;
  world.watch(jobs);
  world.run(Time(2s));
  const AllReduceMode& first = *world.peer(0).node->as<AllReduceMode>();
  const Generation* generation = nullptr;
  for (Time at(2s); at < Time(10s) && (generation == nullptr || generation->order.size() < 3);
       at += 10ms) {
    world.run(at);
    generation = first.generations()->agreement().generation();
  }
  REQUIRE(generation != nullptr);
  REQUIRE(generation->sources.back() == id_of(0));
  const std::uint64_t key = generation->key();
  world.run(world.now() + 100ms);
  generation = first.generations()->agreement().generation();
  REQUIRE(generation != nullptr);
  REQUIRE(generation->key() == key);
  const std::uint64_t sent = first.counts().states_sent;
  world.send_from_outside(id_of(2), 0,
                          StateRequest{.id = state_id(id_of(2), key, 2),
                                       .layout_hash = world.options().node.course.layout_hash});
  jobs.seen = 0;
  const std::uint64_t operations = first.counts().operations;
  world.run(world.now() + 10s);
  CHECK(first.counts().states_sent == sent);
  CHECK(jobs.seen <= first.counts().operations - operations + 2);  // One job for each collective.
}

TEST_CASE("sparse and rounded gradients train to the same accuracy in far fewer bytes",
          "[sim][allreduce]") {
  check_coded(LockstepRun(4, 8, 400, OptimizerKind::nesterov));
}

TEST_CASE("sums that travel in half precision are means all the way", "[allreduce]") {
  const std::vector<PeerId> peers = {PeerId{1}, PeerId{2}, PeerId{3}};
  const std::size_t elements = 100;
  AllReduceOptions options;
  options.compression.codec = Codec::fp16;
  const Generation generation{.id = {.number = 1, .proposer = PeerId{1}},
                              .order = peers,
                              .sources = peers,
                              .shares = {8, 8, 16},
                              .version = {}};
  std::deque<Collective> parts;
  std::deque<std::pair<PeerId, Transfer>> sent;
  const auto post = [&](PeerId from, Effects& out) {
    for (Transfer& transfer : out.transfers) sent.emplace_back(from, std::move(transfer));
  };
  for (const PeerId peer : peers) {
    Collective& part = parts.emplace_back(peer, elements, options);
    Effects out;
    part.enter(generation);
    part.begin(0, 1, 1, out);
    const auto order = part.order(1);
    REQUIRE(order);
    // The sum of two such values overflows in half precision.
    std::fill_n(order->values->begin(), elements, 60000.0f);
    part.ready(1, 0, out);
    post(peer, out);
  }
  while (!sent.empty()) {
    const auto [from, transfer] = std::move(sent.front());
    sent.pop_front();
    const auto to = std::ranges::find(peers, transfer.to) - peers.begin();
    Effects out;
    REQUIRE(parts[static_cast<std::size_t>(to)].receive(
        from, {transfer.id, 0, transfer.payload.bytes}, out));
    post(transfer.to, out);
  }
  for (Collective& part : parts) {
    const Collective::Vector mean = part.finish();
    REQUIRE(mean);
    CHECK(std::all_of(mean->begin(), mean->begin() + elements,
                      [](float value) { return std::abs(value - 60000) < 100; }));
  }
}

TEST_CASE("what is not sent of a gradient is sent later and asked for again it is the same",
          "[sim][allreduce]") {
  const LockstepRun run(1, 8, 50, OptimizerKind::sgd);
  WholeReplica replica(run.learner(0), 0);
  const auto plain = run.learner(0);
  const std::size_t size = plain->layout().size();
  std::vector<double> sent(size, 0);
  std::vector<double> whole(size, 0);
  std::vector<float> gradient(size);
  const auto nothing = std::make_shared<Floats>(size, 0.0f);
  const task::ComputeGradient order = largest_of({.top_k_per_512 = 16}, size);
  for (int step = 0; step < 20; ++step) {
    const auto ask = [&] {
      replica.run({.tasks = {order}});
      return *order.values;
    };
    const Floats once = ask();
    CHECK(ask() == once);
    CHECK(static_cast<std::size_t>(std::ranges::count_if(once, [](float v) { return v != 0; })) <=
          16 * (size / 512 + 1));
    plain->gradient(8, gradient);
    for (std::size_t i = 0; i < size; ++i) {
      sent[i] += once[i];
      whole[i] += gradient[i];
    }
    replica.run({.tasks = {task::ApplyUpdate{.values = nothing}}});
    plain->update(*nothing);
  }
  const auto kept = replica.optimizer_state().vectors.back();
  REQUIRE(kept.first == "gradient_waiting");
  for (std::size_t i = 0; i < size; ++i) {
    REQUIRE(sent[i] + kept.second[i] == Approx(whole[i]).margin(1e-5));
  }
}

TEST_CASE("momentum before the selection is that of a Dgc, also when asked for again",
          "[sim][allreduce]") {
  const LockstepRun run(1, 8, 50, OptimizerKind::sgd);
  WholeReplica replica(run.learner(0), 0);
  const auto plain = run.learner(0);
  const std::size_t size = plain->layout().size();
  Dgc expected({.momentum = 0.9, .block = 512}, size);
  std::vector<float> gradient(size);
  const auto nothing = std::make_shared<Floats>(size, 0.0f);
  const task::ComputeGradient order = largest_of({.top_k_per_512 = 16, .momentum = 0.9}, size);
  for (int step = 0; step < 20; ++step) {
    for (int times = 0; times < 2; ++times) replica.run({.tasks = {order}});
    plain->gradient(8, gradient);
    Floats sent(size, 0.0f);
    expected.step(gradient, 16.0 / 512).add_to(sent);
    CHECK(*order.values == sent);
    replica.run({.tasks = {task::ApplyUpdate{.values = nothing}}});
    plain->update(*nothing);
  }
}

TEST_CASE("what waits of gradients is in a checkpoint as it was before the last selection",
          "[sim][allreduce]") {
  const LockstepRun run(1, 8, 50, OptimizerKind::sgd);
  WholeReplica replica(run.learner(0), 0);
  const std::size_t size = replica.learner().layout().size();
  const task::ComputeGradient order = largest_of({.top_k_per_512 = 16, .momentum = 0.5}, size);
  const auto ask = [&](WholeReplica& of) {
    of.run({.tasks = {order}});
    return *order.values;
  };
  for (int step = 0; step < 5; ++step) {
    const auto sum = std::make_shared<Floats>(ask(replica));
    replica.run({.tasks = {task::ApplyUpdate{.values = sum}}});
  }
  const bool asked_again = GENERATE(false, true);
  if (asked_again) ask(replica);  // The sum for this gradient never arrives.
  WholeReplica restored(run.learner(0), 0);
  REQUIRE(restored.restore(replica.parts().front()).empty());
  CHECK(restored.optimizer_state().vectors == replica.optimizer_state().vectors);
  CHECK(ask(restored) == ask(replica));
}

TEST_CASE("while it warms up more of a gradient travels, and less with every stage", "[unit]") {
  const CompressorOptions options{.top_k_per_512 = 1, .warm_up_steps = 100};
  std::size_t last = 511;
  for (const std::uint64_t step : {0, 20, 40, 60, 80, 100}) {
    CHECK(options.keep_at(step) < last);
    CHECK(options.keep_at(step + 19) == options.keep_at(step));
    last = options.keep_at(step);
  }
  CHECK(last == 1);
  CHECK(CompressorOptions{.top_k_per_512 = 7}.keep_at(0) == 7);
  CHECK(CompressorOptions{.warm_up_steps = 7}.keep_at(0) == 0);
}

TEST_CASE("deep gradient compression learns what lockstep with momentum learns",
          "[sim][allreduce]") {
  const LockstepRun run(4, 8, 300, OptimizerKind::sgd);
  Simulator::Options options = run.options();
  options.node.allreduce.segment_elements = 1 << 14;
  options.node.allreduce.compression = {.top_k_per_512 = 8, .momentum = 0.8, .warm_up_steps = 50};
  Simulator sparse(options, run.workloads());
  sparse.run(Time(10min));
  CHECK(run.accuracy(sparse) > 0.84);
}

TEST_CASE(
    "a bit or a sign for each value and drawn values learn what whole gradients learn also "
    "through a death",
    "[sim][allreduce]") {
  const LockstepRun run(4, 8, 400, OptimizerKind::sgd);
  double accuracy = 0;
  std::size_t bytes = 0;
  // The first row sends uncompressed gradients.
  const std::vector<CompressorOptions> rows = {
      {}, {.one_bit = true}, {.random_k_per_512 = 64}, {.ternary = true}};
  for (const CompressorOptions& compression : rows) {
    Simulator::Options options = run.options();
    options.node.allreduce.segment_elements = 1 << 14;
    options.node.allreduce.compression = compression;
    options.node.course.save_every_steps = 40;
    options.scenario.faults = {fault(FaultKind::kill, 900ms, just(1), 700ms)};
    Simulator world(options, run.workloads());
    SumBytes sums;
    world.watch(sums);
    world.run(Time(10min));
    INFO(chosen_compressor(compression).name);
    if (compression == CompressorOptions{}) {
      accuracy = run.accuracy(world);
      bytes = sums.sent;
    } else {
      CHECK(run.accuracy(world) > accuracy - 0.04);
      // An uncompressed gradient has 780 values, each sent one and a half times. With compression,
      // each of four peers sends three parts: 29 floats each with one bit per value, 51 with
      // ternary values, and 98 with values at random places.
      CHECK(sums.sent < bytes / 6);
    }
  }
}

}  // namespace gv
