// Gradients sent as factors, thin or sufficient: compared with a serial run, through deaths, and in
// checkpoints.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "peer/modes/allreduce.hpp"
#include "peer/modes/collective.hpp"
#include "peer/node/gradient_places.hpp"
#include "peer/node/whole_replica.hpp"
#include "tests/sim/lockstep_run.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// Uses an algorithm that sends the same number of bytes for each element, even for few elements.
Simulator::Options by_ring(Simulator::Options options) {
  options.node.allreduce.algorithm = ReduceAlgorithm::ring;
  return options;
}

/// The options of a run with factors of that rank.
struct FactorRun : LockstepRun {
  FactorRun(std::size_t peers, std::size_t rank, std::uint64_t steps)
      : LockstepRun(peers, 8, steps, OptimizerKind::nesterov),
        shape(
            factor_shape(learner(0)->layout().size(), matrix_places(learner(0)->layout()), rank)) {
    for (TrainerSpec& spec : specs) spec.schedule.learning_rate = 0.02;
  }

  Simulator::Options with_factors() const {
    Simulator::Options chosen = options();
    chosen.node.allreduce.compression.rank = shape.rank;
    chosen.node.allreduce.places.matrices = matrix_places(learner(0)->layout());
    return chosen;
  }

  FactorShape shape;
};

/// The options of a run with sufficient factors. Its batches are so small that two of the three
/// layers use sufficient factors.
struct SufficientRun : LockstepRun {
  SufficientRun(std::size_t peers, std::uint64_t steps)
      : LockstepRun(peers, 2, steps, OptimizerKind::nesterov) {
    for (TrainerSpec& spec : specs) spec.schedule.learning_rate = 0.02;
  }

  Simulator::Options with_factors() const {
    Simulator::Options chosen = options();
    chosen.node.allreduce.compression.sufficient_factors = true;
    chosen.node.allreduce.places.dense = dense_places(learner(0)->dense_weights());
    return chosen;
  }
};

/// Records the first peer's own figures about its collectives while it runs.
struct FirstPeer : Watcher {
  void after(const Simulator& world, PeerNumber peer) override {
    const auto& node = world.peer(0).node;
    if (peer != 0 || !node) return;
    const AllReduceMode& allreduce = *node->as<AllReduceMode>();
    if (allreduce.step() >= world.options().node.course.steps) return;
    bytes = static_cast<double>(allreduce.counts().reduced_bytes);
    const Generation* newest = allreduce.generations()->agreement().generation();
    if (newest != nullptr) generations[allreduce.step()] = newest->key();
  }
  double bytes = 0;
  std::map<std::uint64_t, std::uint64_t> generations;  ///< Generation of each step, keyed by step.
};

/// Counts the bytes that all peers together send for the sum of each step. The order of the peers
/// in a ring does not change this number.
class BytesOfSteps : public Watcher {
 public:
  void on_effects(const Simulator&, PeerNumber, const NodeEffects& effects) override {
    for (const Transfer& transfer : effects.transfers) {
      const std::optional<PieceName> piece = piece_named(transfer.id);
      if (!piece) continue;
      std::size_t& in_generation = generations_[{piece->operation, transfer.id.session}];
      in_generation += transfer.payload.bytes.size();
      // If a generation ends during a sum, the next one makes this sum, and sends more of it.
      std::size_t& most = of_steps[piece->operation];
      most = std::max(most, in_generation);
    }
  }
  std::map<std::uint64_t, std::size_t> of_steps;

 private:
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::size_t> generations_;
};

/// Kills and restarts one of four peers, and stops another. All must end with the same model.
void outlives_faults(const LockstepRun& run, Simulator::Options options, MakeWorkload workloads,
                     int moment) {
  options.node.course.save_every_steps = 40;
  const auto who = static_cast<std::size_t>(moment) % 4;
  options.scenario.faults = {fault(FaultKind::kill, 500ms + 37ms * moment, just(who), 700ms),
                             fault(FaultKind::stop, 3s + 11ms * moment, just(3 - who), 4s)};
  Simulator world(std::move(options), std::move(workloads));
  int apart = 0;
  FactWatch watch([&](const Simulator&, PeerNumber, const Fact& fact) {
    apart += std::holds_alternative<ModelsDiffer>(fact) || std::holds_alternative<SumRefused>(fact);
  });
  world.watch(watch);
  world.run(Time(10min));
  CHECK(apart == 0);
  // accuracy() also compares all models.
  CHECK(run.accuracy(world) > 0.7);
}

}  // namespace

TEST_CASE("gradients in factors are the serial run's in the same order of additions, bit for bit",
          "[sim][allreduce]") {
  const std::size_t peers = GENERATE(1, 2, 5);
  const FactorRun run(peers, 3, 40);
  REQUIRE(run.shape.matrices.size() == 3);
  Simulator::Options options = run.with_factors();
  options.node.course.wait_for_peers = peers;
  options.node.allreduce.algorithm = ReduceAlgorithm::ring;
  Simulator world(options, run.workloads());
  FirstPeer first;
  world.watch(first);
  world.run(Time(10min));
  REQUIRE(first.generations.size() == run.steps);

  std::vector<std::unique_ptr<Learner>> serial;
  std::vector<PowerSgd> factors(peers, PowerSgd(run.shape));
  for (std::size_t peer = 0; peer < peers; ++peer) serial.push_back(run.learner(peer));
  PowerSgd::Turn turn;
  for (std::uint64_t step = 0; step < run.steps; ++step) {
    const std::uint64_t generation = first.generations[step];
    turn = generation == turn.generation ? PowerSgd::Turn{generation, turn.number + 1}
                                         : PowerSgd::Turn{generation, 0};
    std::vector<std::vector<float>> parts;
    std::vector<float> gradient(run.shape.elements);
    for (std::size_t peer = 0; peer < peers; ++peer) {
      serial[peer]->gradient(8, gradient);
      factors[peer].encode(gradient, turn, parts.emplace_back(run.shape.size(turn.number)));
    }
    const std::vector<float> mean = ring_mean(parts);
    for (std::size_t peer = 0; peer < peers; ++peer) {
      factors[peer].decode(mean, gradient);
      serial[peer]->update(gradient);
    }
  }
  for (PeerNumber number = 0; number < world.size(); ++number) {
    REQUIRE(world.peer(number).work->step() == run.steps);
    CHECK(std::ranges::equal(world.peer(number).work->parameters(), serial[0]->parameters()));
  }
}

TEST_CASE("gradients in factors learn what whole ones learn with fewer bytes", "[sim][allreduce]") {
  FactorRun run(4, 3, 400);
  if (GENERATE(false, true)) run.local = {.period = 4, .local_after = 100};
  FirstPeer all;
  FirstPeer few;
  Simulator whole(by_ring(run.options()), run.workloads());
  whole.watch(all);
  whole.run(Time(10min));
  Simulator thin(by_ring(run.with_factors()), run.workloads());
  thin.watch(few);
  thin.run(Time(10min));
  // The accuracies are measured on 400 samples, each with a standard deviation of 0.3.
  CHECK(run.accuracy(thin) > run.accuracy(whole) - 0.04);
  // Collectives send two parts in turn, each with a checksum of four numbers. `part` is their mean
  // size.
  const double part = static_cast<double>(run.shape.size(0) + run.shape.size(1)) / 2 + 4;
  CHECK(few.bytes / all.bytes ==
        Approx(part / (static_cast<double>(run.shape.elements) + 4)).epsilon(0.01));
}

TEST_CASE("sufficient factors are the serial run's gradients, bit for bit", "[sim][allreduce]") {
  const std::size_t peers = GENERATE(1, 2, 4);
  const SufficientRun run(peers, 40);
  Simulator::Options options = run.with_factors();
  options.node.course.wait_for_peers = peers;
  options.node.allreduce.algorithm = ReduceAlgorithm::ring;
  Simulator world(options, run.workloads());
  world.run(Time(10min));

  std::vector<std::unique_ptr<Learner>> serial;
  for (std::size_t peer = 0; peer < peers; ++peer) serial.push_back(run.learner(peer));
  const std::size_t elements = serial[0]->layout().size();
  const SufficientFactors cut(elements, options.node.allreduce.places.dense,
                              std::vector<std::uint32_t>(peers, 2));
  REQUIRE(cut.weights().size() == (peers == 1 ? 3 : 2));
  const std::size_t gathered = cut.parts().back().end;
  for (std::uint64_t step = 0; step < run.steps; ++step) {
    std::vector<float> all(cut.size());
    std::vector<std::vector<float>> rests;
    for (std::size_t peer = 0; peer < peers; ++peer) {
      std::vector<float> gradient(elements);
      serial[peer]->gradient(2, gradient, {}, cut.weights());
      std::vector<float> vector(cut.size());
      cut.pack(gradient, peer, vector);
      const Range& own = cut.parts()[peer];
      std::copy_n(vector.begin() + static_cast<std::ptrdiff_t>(own.begin), own.size(),
                  all.begin() + static_cast<std::ptrdiff_t>(own.begin));
      rests.emplace_back(vector.begin() + static_cast<std::ptrdiff_t>(gathered), vector.end());
    }
    std::ranges::copy(ring_mean(rests), all.begin() + static_cast<std::ptrdiff_t>(gathered));
    std::vector<float> mean(elements);
    cut.unpack(all, mean);
    for (const auto& trainer : serial) trainer->update(mean);
  }
  for (PeerNumber number = 0; number < world.size(); ++number) {
    REQUIRE(world.peer(number).work->step() == run.steps);
    CHECK(std::ranges::equal(world.peer(number).work->parameters(), serial[0]->parameters()));
  }
}

TEST_CASE("with sufficient factors nothing is lost and fewer bytes travel", "[sim][allreduce]") {
  SufficientRun run(4, 200);
  FirstPeer all;
  FirstPeer few;
  Simulator whole(by_ring(run.options()), run.workloads());
  whole.watch(all);
  whole.run(Time(10min));
  Simulator world(by_ring(run.with_factors()), run.workloads());
  world.watch(few);
  world.run(Time(10min));
  const auto a = whole.peer(0).work->parameters();
  const auto b = world.peer(0).work->parameters();
  double apart = 0;
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    apart = std::max(apart, std::abs(static_cast<double>(a[i]) - b[i]));
    largest = std::max(largest, std::abs(static_cast<double>(a[i])));
  }
  // The same terms are added in another order, for 200 steps with momentum.
  CHECK(apart < 1e-4 * largest);
  // Gathered factors cost half as much as summed elements. The checksum adds four numbers.
  const std::size_t elements = run.learner(0)->layout().size();
  const SufficientFactors cut(elements, world.options().node.allreduce.places.dense, {2, 2, 2, 2});
  const auto gathered = static_cast<double>(cut.parts().back().end);
  const double rest = static_cast<double>(cut.size()) - gathered;
  CHECK(few.bytes / all.bytes ==
        Approx((gathered / 2 + rest + 4) / (static_cast<double>(elements) + 4)).epsilon(0.02));
  CHECK(few.bytes < 0.6 * all.bytes);
}

TEST_CASE("factors of a layer are sent only while the growing batch makes them the smaller form",
          "[sim][allreduce]") {
  // With 2 samples of each of four peers, two layers are sent as factors. With 8 samples, the
  // factors of every layer have more numbers than its weights.
  constexpr std::uint64_t grows_at = 100;
  SufficientRun run(4, 300);
  for (TrainerSpec& spec : run.specs) spec.batch_max = 4 * spec.batch;
  const auto bytes_of = [&](Simulator::Options options) {
    options.node.course.work.growth = {.at = {grows_at * 4 * 2}, .factor = 4};
    Simulator world(by_ring(std::move(options)), run.workloads());
    BytesOfSteps bytes;
    world.watch(bytes);
    world.run(Time(10min));
    CHECK(run.accuracy(world) > 0.8);
    return bytes.of_steps;
  };
  const std::map<std::uint64_t, std::size_t> whole = bytes_of(run.options());
  const std::map<std::uint64_t, std::size_t> factors = bytes_of(run.with_factors());
  REQUIRE(whole.size() == run.steps);
  REQUIRE(factors.size() == run.steps);
  for (const auto& [step, bytes] : factors) {
    INFO("step " << step << ": " << bytes << " bytes instead of " << whole.at(step));
    if (step < grows_at) {
      CHECK(10 * bytes < 6 * whole.at(step));
    } else {
      CHECK(bytes == whole.at(step));
    }
  }
}

TEST_CASE("sufficient factors follow shares that follow speed", "[sim][allreduce]") {
  SufficientRun run(4, 300);
  Simulator::Options options = run.with_a_slow_one();
  options.node.allreduce.compression.sufficient_factors = true;
  options.node.allreduce.places.dense = dense_places(run.learner(0)->dense_weights());
  Simulator world(options, run.workloads());
  bool unequal = false;
  FactWatch watch([&](const Simulator& at, PeerNumber, const Fact&) {
    const auto& node = at.peer(0).node;
    const Generation* generation =
        node ? node->as<AllReduceMode>()->generations()->agreement().generation() : nullptr;
    unequal = unequal || (generation != nullptr &&
                          std::ranges::adjacent_find(generation->shares, std::not_equal_to<>()) !=
                              generation->shares.end());
  });
  world.watch(watch);
  world.run(Time(10min));
  CHECK(unequal);
  CHECK(run.accuracy(world) > 0.8);
}

TEST_CASE("however short the buckets beside factors are, all can be named", "[sim][allreduce]") {
  constexpr std::size_t elements = 200'000;
  AllReduceOptions options;
  options.compression.sufficient_factors = true;
  options.places.dense = {{.place = {.begin = 0, .rows = 10, .cols = 10}}};
  options.bucket_elements = 1;
  Collective operation(PeerId{1}, elements, options);
  operation.enter({.order = {PeerId{1}, PeerId{2}}, .shares = {2, 2}});
  Effects out;
  operation.begin(0, 1, 1, out);
  const task::ComputeGradient order = operation.order(1).value();
  CHECK(order.marks.size() <= PieceName::buckets_max);
  CHECK(order.marks.back() == 0);
}

TEST_CASE("deaths and returns at any moment leave all with one model of factors",
          "[sim][allreduce]") {
  const bool sufficient = GENERATE(false, true);
  for (int moment = 0; moment < 25; ++moment) {
    INFO("moment " << moment);
    if (sufficient) {
      const SufficientRun run(4, 300);
      outlives_faults(run, run.with_factors(), run.workloads(), moment);
    } else {
      const FactorRun run(4, 2, 300);
      outlives_faults(run, run.with_factors(), run.workloads(), moment);
    }
  }
}

TEST_CASE("what factors lack is in a checkpoint as it was before the last was asked for",
          "[sim][allreduce]") {
  const FactorRun run(1, 2, 50);
  WholeReplica replica(run.learner(0), 0);
  std::uint64_t turn = 0;
  const AllReduceOptions options = run.with_factors().node.allreduce;
  const std::shared_ptr compressor = options.compressor(run.shape.elements);
  const auto ask = [&](WholeReplica& of, std::uint64_t generation, std::uint64_t number) {
    const task::ComputeGradient order{
        .samples = 8,
        .compressor = compressor,
        .plan = compressor->plan({.generation = generation, .number = number, .shares = {}}),
        .values = std::make_shared<Floats>(run.shape.largest())};
    of.run({.tasks = {order}});
    return order;
  };
  for (; turn < 5; ++turn) {
    const task::ComputeGradient order = ask(replica, 1, turn);
    replica.run({.tasks = {task::ApplyUpdate{.values = order.values, .plan = order.plan}}});
  }
  if (GENERATE(false, true)) ask(replica, 1, turn);  // The sum never arrives.
  WholeReplica restored(run.learner(0), 0);
  REQUIRE(restored.restore(replica.parts().front()).empty());
  CHECK(restored.optimizer_state().vectors == replica.optimizer_state().vectors);
  CHECK(*ask(restored, 2, 0).values == *ask(replica, 2, 0).values);
  // A run that continues without factors does not need the part of the state for factors.
  WholeReplica plain(run.learner(0), 0);
  CHECK(plain.restore(replica.parts().front()).empty());
}

}  // namespace gv
