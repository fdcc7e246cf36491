// Pipeline runs take as long in virtual time as the formulas of their schedules say.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "consensus/pipeline/replay.hpp"
#include "peer/modes/pipeline.hpp"
#include "sim/virtual/simulator.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// Equal stages that do nothing but take time, each on a peer of its own.
struct EvenPipeline {
  PipelineKind kind = PipelineKind::one_f_one_b;
  std::size_t stages = 4;
  std::size_t micro_batches = 8;
  std::size_t ahead = 0;
  Duration forward = 30ms;   ///< A forward pass of a stage. Backward passes take twice as long.
  double mbit = 0;           ///< Bandwidth of every link in each direction; 0 means unlimited.
  std::size_t values = 16;   ///< The number of values that a stage passes to the next one.
  double slowest_speed = 1;  ///< Speed of the last peer, relative to the others.

  /// The seconds that a micro-batch needs for its forward and backward passes through one stage.
  double both() const { return 3 * seconds(forward); }
};

struct Pace {
  double step = 0;    ///< The duration of a run in seconds.
  double bubble = 0;  ///< The mean fraction of a run in which a peer is idle.
};

/// Measures from the second run on, when all peers are in step.
Pace pace_of(const EvenPipeline& wanted) {
  constexpr std::uint64_t runs = 5;
  Simulator::Options options = small_world(wanted.stages, 3, wanted.values);
  options.scenario.step_jitter = 0;
  options.scenario.step = wanted.forward * static_cast<int>(3 * wanted.stages);
  LinkQuality quality;
  quality.bandwidth = wanted.mbit;
  options.scenario.links = {every_link(quality)};
  if (wanted.slowest_speed != 1) {
    options.scenario.speeds = {{.peers = just(wanted.stages - 1), .factor = wanted.slowest_speed}};
  }
  options.node.mode = ModeKind::pipeline;
  options.node.course.wait_for_peers = wanted.stages;
  PipelineOptions& pipeline = options.node.pipeline;
  pipeline.kind = wanted.kind;
  pipeline.micro_batches = wanted.micro_batches;
  pipeline.accumulate = wanted.stages;
  pipeline.ahead = wanted.ahead;
  pipeline.copy_every = 0;
  for (std::size_t s = 0; s < wanted.stages; ++s) {
    const std::size_t passes = s > 0 ? wanted.values : 0;
    pipeline.stages.push_back(
        {.parameters = 16, .state = 16, .forward = passes, .backward = passes});
    pipeline.stage_seconds.push_back(1.0 / static_cast<double>(wanted.stages));
  }
  Simulator world(options,
                  [&](std::size_t) { return idle_stage_workload(options.node.pipeline.stages); });
  const auto made = [&] { return world.peer(0).node->as<PipelineMode>()->counts().operations; };
  const auto computed = [&] {
    double sum = 0;
    for (PeerNumber number = 0; number < wanted.stages; ++number) {
      sum += world.peer(number).node->as<PipelineMode>()->counts().computing_s;
    }
    return sum;
  };
  const auto run_to = [&](std::uint64_t operations) {
    while (made() < operations) REQUIRE(world.step(Time(10min)));
    return std::pair(seconds(world.now().time_since_epoch()), computed());
  };
  world.run(Time(1ms));  // By then all peers have started.
  const auto [begin, computed_before] = run_to(2);
  const auto [end, computed_after] = run_to(2 + runs);
  const double whole = end - begin;
  const double busy = (computed_after - computed_before) / static_cast<double>(wanted.stages);
  return {whole / static_cast<double>(runs), 1 - busy / whole};
}

/// The duration of a run, computed from the schedule.
double replayed(const EvenPipeline& wanted, double transfer_s) {
  Routes routes = straight_routes(wanted.stages, wanted.micro_batches);
  if (wanted.kind == PipelineKind::chimera) {
    for (std::size_t b = 1; b < routes.size(); b += 2) std::ranges::reverse(routes[b]);
  }
  const double pass = seconds(wanted.forward);
  PipelineCosts costs{
      .stages = std::vector<StageCost>(
          wanted.stages, {.forward = pass, .backward_input = pass, .backward_weight = pass})};
  costs.boundaries.assign(wanted.stages - 1, {.seconds = transfer_s});
  return replay(make_schedule(wanted.kind, routes, wanted.stages, wanted.stages, wanted.ahead),
                costs)
      .makespan;
}

}  // namespace

TEST_CASE("the bubble of virtual pipelines is that of the formulas", "[sim]") {
  // The seconds in which a peer is idle, for p stages. A forward pass takes F. A backward pass
  // takes B = 2 F = I + W, for the gradients of inputs and of weights.
  const std::map<PipelineKind, double> bubbles = {
      {PipelineKind::gpipe, 3},        // (p - 1)(F + B)
      {PipelineKind::one_f_one_b, 3},  // (p - 1)(F + B)
      {PipelineKind::zero_bubble, 1},  // (p - 1)(F + I - W)
  };
  for (const auto& [kind, passes] : bubbles) {
    for (const std::size_t p : {2, 4, 6}) {
      for (const std::size_t m : {6, 12}) {
        for (const std::size_t ahead : {0, 1}) {
          const EvenPipeline wanted{.kind = kind, .stages = p, .micro_batches = m, .ahead = ahead};
          const double bubble = static_cast<double>(p - 1) * passes * seconds(wanted.forward);
          const double computing = static_cast<double>(m) * wanted.both();
          const Pace pace = pace_of(wanted);
          INFO(to_string(kind) << ", " << p << " stages, " << m << " micro-batches");
          CHECK(pace.step == Approx(computing + bubble).epsilon(0.002));
          CHECK(pace.bubble == Approx(bubble / (computing + bubble)).epsilon(0.01));
        }
      }
    }
  }
}

TEST_CASE("virtual pipelines of every schedule take as long as the schedule on a clock", "[sim]") {
  for (const PipelineKind kind : pipeline_kinds) {
    for (const std::size_t ahead : {0, 1}) {
      const EvenPipeline wanted{.kind = kind, .micro_batches = 12, .ahead = ahead};
      INFO(to_string(kind) << ", ahead " << ahead);
      CHECK(pace_of(wanted).step == Approx(replayed(wanted, 0)).epsilon(0.002));
    }
  }
}

TEST_CASE("in a steady state virtual PipeDream and 2BW have no bubble", "[sim]") {
  for (const PipelineKind kind : {PipelineKind::pipedream, PipelineKind::two_bw}) {
    EvenPipeline wanted{.kind = kind, .micro_batches = 12};
    const double few = pace_of(wanted).step;
    wanted.micro_batches = 36;
    CHECK(pace_of(wanted).step - few == Approx(24 * wanted.both()).epsilon(0.002));
  }
}

TEST_CASE("over links of 1 Gbit a second transfers hide behind computing", "[sim]") {
  // Stages pass 262 kB, which takes 2.1 ms. That is less than the 3 ms that a pass takes.
  constexpr std::size_t values = 1 << 16;
  constexpr double transfer = 8e-9 * sizeof(float) * values;
  for (const PipelineKind kind :
       {PipelineKind::gpipe, PipelineKind::one_f_one_b, PipelineKind::zero_bubble}) {
    EvenPipeline wanted{.kind = kind,
                        .micro_batches = 32,
                        .ahead = 1,
                        .forward = 3ms,
                        .mbit = 1000,
                        .values = values};
    const double computing = replayed(wanted, 0);
    const double communicating = static_cast<double>(wanted.micro_batches) * transfer;
    const double longer = std::max(computing, communicating);
    const double step = pace_of(wanted).step;
    INFO(to_string(kind) << ": " << step << " s a step, " << computing << " s of computing, "
                         << communicating << " s of transfers");
    CHECK(step < 1.1 * longer);
    CHECK(step == Approx(replayed(wanted, transfer)).epsilon(0.02));
    if (kind != PipelineKind::one_f_one_b) continue;
    wanted.ahead = 0;
    CHECK(pace_of(wanted).step > 1.25 * longer);
  }
}

TEST_CASE("where transfers take longer than passes a virtual pipeline is as fast as its links",
          "[sim]") {
  // A transfer takes 12 ms, longer than the 9 ms for which a stage computes on a micro-batch.
  constexpr std::size_t values = 375000;
  constexpr double transfer = 8e-9 * sizeof(float) * values;
  const EvenPipeline wanted{
      .stages = 2, .micro_batches = 32, .ahead = 3, .forward = 3ms, .mbit = 1000, .values = values};
  CHECK(pace_of(wanted).step < 1.1 * 32 * transfer);
}

TEST_CASE("a virtual pipeline is as fast as its slowest peer", "[sim]") {
  EvenPipeline wanted{.micro_batches = 24, .ahead = 1};
  const double alike = pace_of(wanted).step;
  for (const double speed : {0.5, 0.25}) {
    wanted.slowest_speed = speed;
    const double slowest = 24 * wanted.both() / speed;
    const double step = pace_of(wanted).step;
    INFO(step << " s a step, " << alike << " s if all are alike");
    CHECK(step > slowest);
    CHECK(step < slowest + 3 * wanted.both() + 0.01);
  }
}

}  // namespace gv
