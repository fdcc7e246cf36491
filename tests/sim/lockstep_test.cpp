// Peers in lockstep compute what one machine would: bit for bit in the same order of additions.
#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <memory>
#include <vector>

#include "sim/virtual/simulator.hpp"
#include "tests/sim/worlds.hpp"
#include "train/data/generated.hpp"
#include "train/data/sampler.hpp"
#include "train/optimizer.hpp"
#include "train/trainer.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t lanes = 4;  ///< Numbers that ride along behind every gradient.

/// Peers with a shard each, and everything to do their work without them.
struct Run {
  Run(std::size_t peers, std::size_t batch, std::uint64_t steps, OptimizerKind kind)
      : steps(steps) {
    for (std::size_t peer = 0; peer < peers; ++peer) {
      shards.push_back(std::make_shared<const DataSet>(generate_blobs(
          {.samples = 300 + 40 * peer, .features = 12, .classes = 4, .seed = 3}, peer)));
      TrainerSpec spec{.model = mlp({24, 16}, 4),
                       .optimizer = {.kind = kind},
                       .schedule = {.learning_rate = 0.05},
                       .batch = batch,
                       .steps = steps,
                       .seed = 3,
                       .peer = peer};
      specs.push_back(spec);
    }
  }

  Trainer trainer(std::size_t peer) const { return Trainer(specs[peer], shards[peer]); }

  /// The peers' models after the run, in a virtual world with `scenario`.
  std::vector<std::vector<float>> in_lockstep(const Scenario& scenario,
                                              std::optional<ReduceAlgorithm> algorithm) const {
    const Trainer first = trainer(0);
    Simulator::Options options = small_world(specs.size(), 11);
    options.scenario = scenario;
    options.node.mode = ModeKind::ring;
    options.node.gossip.exchange.layout_hash = first.layout().hash();
    RingOptions& ring = options.node.ring;
    ring.steps = steps;
    ring.layout_hash = first.layout().hash();
    ring.elements = first.layout().size();
    ring.state_elements = first.state_size();
    ring.algorithm = algorithm;
    ring.batch = static_cast<std::uint32_t>(specs[0].batch);
    ring.segment_elements = 50;
    Simulator world(
        options, [&](std::size_t peer) { return training_workload(Replica(trainer(peer), peer)); });
    world.run(Time(10min));
    std::vector<std::vector<float>> result;
    for (PeerNumber number = 0; number < world.size(); ++number) {
      REQUIRE(world.peer(number).work);
      CHECK(world.peer(number).work->step() == steps);
      const auto values = world.peer(number).work->parameters();
      result.emplace_back(values.begin(), values.end());
    }
    return result;
  }

  std::vector<std::shared_ptr<const DataSet>> shards;
  std::vector<TrainerSpec> specs;
  std::uint64_t steps;
};

/// The weighted sum as a ring makes it: chunk c begins at rank c and is added to by each in turn.
std::vector<float> ring_sum(const std::vector<std::vector<float>>& gradients, float weight) {
  const std::size_t n = gradients.size();
  const std::size_t total = gradients[0].size() + lanes;
  std::vector<float> sum(gradients[0].size());
  for (std::size_t chunk = 0; chunk < n; ++chunk) {
    const std::size_t end = std::min(sum.size(), (chunk + 1) * total / n);
    for (std::size_t i = chunk * total / n; i < end; ++i) {
      float value = weight * gradients[chunk][i];
      for (std::size_t hop = 1; hop < n; ++hop) {
        value = value + weight * gradients[(chunk + hop) % n][i];
      }
      sum[i] = value;
    }
  }
  return sum;
}

double distance(std::span<const float> a, std::span<const float> b) {
  double apart = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    apart += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(apart / norm);
}

}  // namespace

TEST_CASE("peers in lockstep are the serial run in the same order of additions, bit for bit",
          "[sim][ring]") {
  const std::size_t peers = GENERATE(1, 2, 3, 4, 7);
  const auto kind = GENERATE(OptimizerKind::nesterov, OptimizerKind::adam);
  const Run run(peers, 8, 60, kind);
  std::vector<Trainer> serial;
  for (std::size_t peer = 0; peer < peers; ++peer) serial.push_back(run.trainer(peer));
  const auto weight = static_cast<float>(1.0 / static_cast<double>(peers));
  for (std::uint64_t step = 0; step < run.steps; ++step) {
    std::vector<std::vector<float>> gradients;
    for (Trainer& trainer : serial) {
      trainer.gradient(8, gradients.emplace_back(trainer.layout().size()));
    }
    const std::vector<float> sum = ring_sum(gradients, weight);
    for (Trainer& trainer : serial) trainer.update(sum);
  }
  for (const std::vector<float>& model : run.in_lockstep({}, ReduceAlgorithm::ring)) {
    CHECK(std::ranges::equal(model, serial[0].parameters()));
  }
}

TEST_CASE("peers in lockstep are one peer with the whole batch", "[sim][ring]") {
  const std::size_t peers = 4;
  const std::size_t batch = 8;
  const auto algorithm =
      GENERATE(ReduceAlgorithm::ring, ReduceAlgorithm::halving_doubling, ReduceAlgorithm::tree);
  const Run run(peers, batch, 200, OptimizerKind::nesterov);
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
  const auto models = run.in_lockstep({}, algorithm);
  for (const std::vector<float>& its : models) {
    CHECK(its == models.front());
    // Both sum the same 32 gradients in float, in another order: each step adds a relative error of
    // some 1e-7 of an update that is a hundredth of the parameters, and 200 of them add up.
    CHECK(distance(its, parameters) < 1e-6);
  }
}

}  // namespace gv
