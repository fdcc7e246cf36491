// A small all-reduce training run, and the means to compute it without a swarm.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <memory>
#include <span>
#include <vector>

#include "consensus/allreduce/all_reduce.hpp"
#include "peer/node/whole_replica.hpp"
#include "sim/virtual/simulator.hpp"
#include "tests/sim/worlds.hpp"
#include "train/built_in_learner.hpp"
#include "train/data/generated.hpp"
#include "train/evaluation.hpp"
#include "train/model.hpp"

namespace gv {

/// Number of values in the contribution checksum that follows every gradient.
constexpr std::size_t ring_lanes = 4;

/// Peers with a shard each, and all that is needed to repeat their work without a swarm.
struct LockstepRun {
  LockstepRun(std::size_t peers, std::size_t batch, std::uint64_t steps, OptimizerKind kind)
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

  std::unique_ptr<Learner> learner(std::size_t peer) const {
    return built_in_learner(specs[peer], shards[peer]);
  }

  /// A virtual world of these peers on perfect links.
  Simulator::Options options() const {
    const auto first = learner(0);
    Simulator::Options options = small_world(specs.size(), 11);
    options.node.mode = ModeKind::allreduce;
    options.node.course.layout_hash = first->layout().hash();
    options.node.course.elements = first->layout().size();
    options.node.course.steps = steps;
    AllReduceOptions& allreduce = options.node.allreduce;
    allreduce.state_elements = WholeReplica(learner(0), 0, local).state_size();
    allreduce.local = local;
    allreduce.batch = static_cast<std::uint32_t>(specs[0].batch);
    allreduce.segment_elements = 50;
    return options;
  }

  /// Like options(), but peer 2 computes at a quarter of the others' pace, and shares follow speed.
  Simulator::Options with_a_slow_one() {
    for (TrainerSpec& spec : specs) spec.batch_max = 4 * spec.batch;
    Simulator::Options chosen = options();
    chosen.node.allreduce.batch_max = static_cast<std::uint32_t>(specs[0].batch_max);
    chosen.scenario.step_jitter = 0;
    chosen.scenario.speeds = {{.peers = just(2), .factor = 0.25}};
    return chosen;
  }

  MakeWorkload workloads() const {
    return [this](std::size_t peer) {
      return std::make_unique<WholeReplica>(learner(peer), peer, local);
    };
  }

  /// Accuracy of the first peer's model on unseen samples. Checks that all have the same model.
  double accuracy(const Simulator& world) const {
    const auto model = world.peer(0).work->parameters();
    for (PeerNumber number = 0; number < world.size(); ++number) {
      CHECK(world.peer(number).work->step() == steps);
      CHECK(std::ranges::equal(world.peer(number).work->parameters(), model));
    }
    const DataSet test =
        generate_blobs({.samples = 400, .features = 12, .classes = 4, .seed = 3}, 99);
    Model judge(specs[0].model, test.shape, 400);
    return judge
        .evaluate(model, {.inputs = test.floats, .labels = test.labels, .targets = {}, .size = 400})
        .accuracy();
  }

  /// The peers' models after the run.
  std::vector<std::vector<float>> in_lockstep(ReduceAlgorithm algorithm) const {
    Simulator::Options chosen = options();
    chosen.node.allreduce.algorithm = algorithm;
    Simulator world(chosen, workloads());
    world.run(Time(std::chrono::minutes(10)));
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
  LocalSteps local;
};

/// The mean as a ring computes it: chunk c starts at rank c, each peer adds its own values, and
/// then the sum is scaled.
inline std::vector<float> ring_mean(const std::vector<std::vector<float>>& gradients) {
  const std::size_t n = gradients.size();
  const std::size_t total = gradients[0].size() + ring_lanes;
  const auto scale = static_cast<float>(1.0 / static_cast<double>(n));
  std::vector<float> mean(gradients[0].size());
  for (std::size_t chunk = 0; chunk < n; ++chunk) {
    const std::size_t end = std::min(mean.size(), (chunk + 1) * total / n);
    for (std::size_t i = chunk * total / n; i < end; ++i) {
      float value = gradients[chunk][i];
      for (std::size_t hop = 1; hop < n; ++hop) value = value + gradients[(chunk + hop) % n][i];
      mean[i] = scale * value;
    }
  }
  return mean;
}

/// Counts the bytes sent for sums.
class SumBytes : public Watcher {
 public:
  void on_effects(const Simulator&, PeerNumber, const NodeEffects& effects) override {
    for (const Transfer& transfer : effects.transfers) {
      if (transfer.id.kind == TransferKind::piece) sent += transfer.payload.bytes.size();
    }
  }
  std::size_t sent = 0;
};

/// Trains with plain pieces, and then with sparse and rounded ones. Checks that both runs learn,
/// and that the second sends far fewer bytes.
inline void check_coded(const LockstepRun& run) {
  Simulator::Options options = run.options();
  options.node.allreduce.segment_elements = 1 << 14;
  Simulator plain(options, run.workloads());
  SumBytes plain_sums;
  plain.watch(plain_sums);
  plain.run(Time(std::chrono::minutes(10)));
  options.node.allreduce.compression.top_k_per_512 = 32;
  options.node.allreduce.compression.codec = Codec::qsgd8;
  Simulator coded(options, run.workloads());
  SumBytes coded_sums;
  coded.watch(coded_sums);
  coded.run(Time(std::chrono::minutes(10)));
  CHECK(run.accuracy(plain) > 0.84);
  CHECK(run.accuracy(coded) > run.accuracy(plain) - 0.03);
  CHECK(coded_sums.sent < plain_sums.sent / 3);
}

/// Distance of the two vectors, relative to the norm of `b`.
inline double distance(std::span<const float> a, std::span<const float> b) {
  double apart = 0;
  double norm = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    apart += std::pow(static_cast<double>(a[i]) - b[i], 2);
    norm += std::pow(static_cast<double>(b[i]), 2);
  }
  return std::sqrt(apart / norm);
}

}  // namespace gv
