// Schedules compared with closed forms and recorded figures, and a validator of schedules.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "consensus/pipeline/replay.hpp"
#include "consensus/pipeline/schedule.hpp"
#include "tests/consensus/schedule_check.hpp"

namespace gv {
namespace {

using Action = PipelineAction;
using Sizes = std::vector<std::size_t>;

/// Routes over a single chain that is used in both directions: every other micro-batch runs from
/// the last worker to the first.
Routes mirrored_routes(std::size_t stages, std::size_t micro_batches) {
  Routes routes = straight_routes(stages, micro_batches);
  for (std::size_t b = 1; b < micro_batches; b += 2) std::ranges::reverse(routes[b]);
  return routes;
}

PipelineSchedule straight(PipelineKind kind, std::size_t stages, std::size_t micro_batches,
                          std::size_t accumulate = 0, std::size_t ahead = 0) {
  const Routes routes = kind == PipelineKind::chimera ? mirrored_routes(stages, micro_batches)
                                                      : straight_routes(stages, micro_batches);
  return make_schedule(kind, routes, stages, accumulate, ahead);
}

PipelineCosts equal_costs(std::size_t stages, double forward, double input, double weight) {
  return {.stages = std::vector<StageCost>(
              stages, {.forward = forward, .backward_input = input, .backward_weight = weight})};
}

/// The makespan in slots, if forward and backward take one slot each.
double slots(PipelineKind kind, std::size_t stages, std::size_t micro_batches) {
  return replay(straight(kind, stages, micro_batches), equal_costs(stages, 1, 0.5, 0.5)).makespan;
}

std::string words(const std::vector<PipelineInstruction>& list) {
  std::string text;
  for (const PipelineInstruction& operation : list) {
    if (!text.empty()) text += " ";
    text += to_string(operation);
  }
  return text;
}

std::string text_of(const Problems& problems) {
  std::string text;
  for (const Problem& problem : problems) text += to_string(problem) + "\n";
  return text;
}

/// Random routes over `replicas` workers for each stage.
Routes random_routes(std::size_t stages, std::size_t replicas, std::size_t micro_batches,
                     Rng& rng) {
  Routes routes(micro_batches, std::vector<std::uint32_t>(stages));
  for (auto& route : routes) {
    for (std::size_t s = 0; s < stages; ++s) {
      route[s] = static_cast<std::uint32_t>(s * replicas + rng.below(replicas));
    }
  }
  return routes;
}

}  // namespace

TEST_CASE("1F1B warms up with as many forward passes as stages follow and then alternates") {
  const PipelineSchedule schedule = straight(PipelineKind::one_f_one_b, 4, 6);
  CHECK(words(schedule.workers[0]) == "F0 F1 F2 F3 B0 F4 B1 F5 B2 B3 B4 B5 U0");
  CHECK(words(schedule.workers[2]) == "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 B5 U0");
  CHECK(words(schedule.workers[3]) == "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 U0");
}

TEST_CASE("1F1B is the closed form of its slots") {
  // In DeepSpeed's TrainSchedule, even stages go forward in even slots and odd stages in odd slots.
  // With p stages and m micro-batches, that takes 2 (m + p - 1) slots in all.
  for (std::size_t p = 1; p <= 6; ++p) {
    for (std::size_t m = 1; m <= 9; ++m) {
      const PipelineSchedule schedule = straight(PipelineKind::one_f_one_b, p, m);
      for (std::size_t s = 0; s < p; ++s) {
        std::vector<PipelineInstruction> expected;
        for (std::size_t slot = 0; slot < 2 * (m + p - 1); ++slot) {
          const auto at = static_cast<std::ptrdiff_t>(slot);
          const auto stage = static_cast<std::ptrdiff_t>(s);
          const auto all = static_cast<std::ptrdiff_t>(p);
          const bool is_forward = slot % 2 == s % 2;
          const std::ptrdiff_t twice = is_forward ? at - stage : at - 2 * all + stage + 1;
          if (twice < 0 || twice / 2 >= static_cast<std::ptrdiff_t>(m)) continue;
          expected.push_back({is_forward ? Action::forward : Action::backward,
                              static_cast<std::uint32_t>(s),
                              static_cast<std::uint32_t>(twice / 2)});
        }
        std::vector<PipelineInstruction> list = schedule.workers[s];
        REQUIRE(list.back().action == Action::update);
        list.pop_back();
        INFO(p << " stages, " << m << " micro-batches, stage " << s << ": " << words(list));
        REQUIRE(list == expected);
      }
    }
  }
}

TEST_CASE("every schedule of up to six stages and nine micro-batches is sound") {
  for (const PipelineKind kind : pipeline_kinds) {
    for (std::size_t p = 1; p <= 6; ++p) {
      for (std::size_t m = 1; m <= 9; ++m) {
        for (std::size_t ahead = 0; ahead <= 3; ++ahead) {
          if (kind == PipelineKind::chimera && p % 2 != 0) continue;
          const PipelineSchedule schedule = straight(kind, p, m, p, ahead);
          PipelineLimits limits;
          for (std::size_t s = 0; s < p; ++s) {
            std::size_t most = p - s;
            if (kind == PipelineKind::zero_bubble) most = p;
            if (can_go_ahead(kind)) most += ahead * (p - 1 - s);
            most = kind == PipelineKind::gpipe ? m : std::min(m, most);
            if (kind == PipelineKind::chimera) most = p + 1 + ahead * (p - 1);
            limits.in_flight.push_back(most);
          }
          INFO(to_string(kind) << ", " << p << " stages, " << m << " micro-batches, ahead "
                               << ahead);
          CHECK(text_of(problems(schedule, limits)) == "");
        }
      }
    }
  }
}

TEST_CASE("makespans are the golden ones") {
  for (const PipelineKind kind : {PipelineKind::gpipe, PipelineKind::one_f_one_b}) {
    CHECK(slots(kind, 4, 4) == 14);
    CHECK(slots(kind, 4, 8) == 22);
    CHECK(slots(kind, 8, 8) == 30);
    CHECK(slots(kind, 8, 32) == 78);
  }
  const auto thirds = [](std::size_t p, std::size_t m) {
    return replay(straight(PipelineKind::zero_bubble, p, m), equal_costs(p, 1, 1, 1)).makespan;
  };
  CHECK(thirds(4, 8) == 27);
  CHECK(thirds(8, 16) == 55);
  CHECK(thirds(4, 16) == 51);
  for (const std::size_t d : {2, 4, 6, 8, 16}) {
    // With D stages the makespan is 2 N + D - 2 for every number N of micro-batches. (The published
    // generator omits instructions if N is 3 D or more.)
    for (const std::size_t n : {d, 2 * d, 3 * d, 4 * d}) {
      CHECK(slots(PipelineKind::chimera, d, n) == static_cast<double>(2 * n + d - 2));
    }
  }
}

TEST_CASE("bubbles are those of the formulas for any costs") {
  for (const auto& [p, m] : {std::pair<std::size_t, std::size_t>{4, 4}, {4, 8}, {8, 32}, {3, 7}}) {
    const PipelineCosts costs = equal_costs(p, 2, 1.5, 1.5);
    const double stages = static_cast<double>(p);
    const double batches = static_cast<double>(m);
    for (const PipelineKind kind : {PipelineKind::gpipe, PipelineKind::one_f_one_b}) {
      const double bubble = replay(straight(kind, p, m), costs).bubble();
      CHECK(bubble == Approx((stages - 1) / (batches + stages - 1)).epsilon(1e-12));
    }
    const PipelineTiming zero = replay(straight(PipelineKind::zero_bubble, p, m), costs);
    CHECK(zero.makespan == Approx(batches * 5 + (stages - 1) * (2 + 1.5 - 1.5)).epsilon(1e-12));
  }
  const double chimera =
      replay(straight(PipelineKind::chimera, 8, 8), equal_costs(8, 1, 0.5, 0.5)).bubble();
  CHECK(chimera == Approx(6.0 / 22).epsilon(1e-12));
}

TEST_CASE("activations kept are as many as the table says") {
  CHECK(in_flight_peaks(straight(PipelineKind::one_f_one_b, 4, 8)) == Sizes{4, 3, 2, 1});
  CHECK(in_flight_peaks(straight(PipelineKind::one_f_one_b, 4, 2)) == Sizes{2, 2, 2, 1});
  CHECK(in_flight_peaks(straight(PipelineKind::gpipe, 4, 8)) == Sizes{8, 8, 8, 8});
  CHECK(in_flight_peaks(straight(PipelineKind::zero_bubble, 4, 8)) == Sizes{4, 4, 4, 4});
  CHECK(in_flight_peaks(straight(PipelineKind::pipedream, 4, 8)) == Sizes{4, 3, 2, 1});
  CHECK(in_flight_peaks(straight(PipelineKind::one_f_one_b, 4, 8, 0, 1)) == Sizes{7, 5, 3, 1});
  CHECK(in_flight_peaks(straight(PipelineKind::one_f_one_b, 4, 32, 0, 2)) == Sizes{10, 7, 4, 1});
  CHECK(in_flight_peaks(straight(PipelineKind::zero_bubble, 4, 8, 0, 1)) == Sizes{7, 6, 5, 4});
  CHECK(in_flight_peaks(straight(PipelineKind::pipedream, 4, 8, 0, 1)) == Sizes{4, 3, 2, 1});
  CHECK(in_flight_peaks(straight(PipelineKind::two_bw, 4, 32, 8, 1)) == Sizes{7, 5, 3, 1});
  CHECK(in_flight_peaks(straight(PipelineKind::two_bw, 4, 32, 4, 1)) == Sizes{4, 4, 3, 1});
}

TEST_CASE("the age of parameters and the versions kept are those of PipeDream and 2BW") {
  const PipelineSchedule dream = straight(PipelineKind::pipedream, 4, 16);
  CHECK(staleness(dream) == Sizes{3, 2, 1, 0});
  CHECK(versions_kept(dream) == Sizes{4, 3, 2, 1});
  for (std::size_t accumulate = 4; accumulate <= 10; ++accumulate) {
    for (std::size_t ahead = 0; ahead <= 3; ++ahead) {
      const PipelineSchedule two =
          straight(PipelineKind::two_bw, 4, 5 * accumulate, accumulate, ahead);
      CHECK(staleness(two) == Sizes{1, 1, 1, 1});
      for (const std::size_t kept : versions_kept(two)) CHECK(kept <= 2);
    }
  }
  for (const PipelineKind kind : pipeline_kinds) {
    if (is_synchronous(kind)) CHECK(staleness(straight(kind, 4, 8)) == Sizes{0, 0, 0, 0});
  }
}

TEST_CASE("in a steady state PipeDream makes a micro-batch in the time of its slowest stage") {
  PipelineCosts costs = equal_costs(4, 1, 1, 1);
  costs.stages[2].backward_weight = 2;
  const double few = replay(straight(PipelineKind::pipedream, 4, 20), costs).makespan;
  const double many = replay(straight(PipelineKind::pipedream, 4, 70), costs).makespan;
  CHECK(many - few == Approx(50 * 4).epsilon(1e-12));
}

TEST_CASE("random routes give sound schedules that pass bounded channels") {
  Rng rng(5);
  for (int i = 0; i < 200; ++i) {
    const std::size_t stages = 1 + rng.below(5);
    const std::size_t replicas = 1 + rng.below(3);
    const std::size_t micro_batches = 1 + rng.below(12);
    const Routes routes = random_routes(stages, replicas, micro_batches, rng);
    for (const PipelineKind kind :
         {PipelineKind::gpipe, PipelineKind::one_f_one_b, PipelineKind::zero_bubble}) {
      const PipelineSchedule schedule =
          make_schedule(kind, routes, stages * replicas, 0, rng.below(3));
      REQUIRE(text_of(problems(schedule)) == "");
      REQUIRE(replay(schedule, equal_costs(stages, 1, 1, 1)).makespan > 0);
    }
  }
}

TEST_CASE("work is passed on while workers compute") {
  // A transfer takes as long as a pass, so everything is delayed by a single round trip.
  PipelineCosts costs = equal_costs(2, 1, 0.5, 0.5);
  const PipelineSchedule schedule = straight(PipelineKind::gpipe, 2, 8);
  const double without = replay(schedule, costs).makespan;
  costs.boundaries = {{.seconds = 1, .latency_s = 0.25}};
  CHECK(replay(schedule, costs).makespan == Approx(without + 2 * 1.25).epsilon(1e-12));
  // A link twice as slow as the work is the bottleneck. It carries eight results forward and eight
  // back.
  costs.boundaries = {{.seconds = 2, .latency_s = 0}};
  CHECK(replay(schedule, costs).makespan == Approx(1 + 8 * 2 + 1 + 1 + 8 * 2 + 1).epsilon(1e-12));
}

TEST_CASE("a schedule made for transfers hides those that take as long as a pass") {
  // Only one round trip through all links remains. Without `ahead` every cycle costs a round trip.
  for (const PipelineKind kind : {PipelineKind::one_f_one_b, PipelineKind::zero_bubble}) {
    for (const std::size_t p : {2, 3, 4, 6}) {
      for (const double seconds : {0.1, 0.5, 1.0}) {
        PipelineCosts costs = equal_costs(p, 1, 1, 1);
        const double without = replay(straight(kind, p, 16), costs).makespan;
        const double ends = 2 * seconds * static_cast<double>(p - 1);
        INFO(to_string(kind) << ", " << p << " stages, transfers of " << seconds << " passes");
        CHECK(replay(straight(kind, p, 16, 0, 1), costs).makespan ==
              Approx(without).epsilon(1e-12));
        costs.boundaries.assign(p - 1, {.seconds = seconds});
        CHECK(replay(straight(kind, p, 16, 0, 1), costs).makespan <= without + ends + 1e-9);
        if (kind == PipelineKind::one_f_one_b) {
          CHECK(replay(straight(kind, p, 16), costs).makespan >= without + 3 * ends);
        }
      }
    }
  }
}

TEST_CASE("2BW with enough micro-batches an update hides transfers in its steady state") {
  PipelineCosts costs = equal_costs(4, 1, 1, 1);
  costs.boundaries.assign(3, {.seconds = 1});
  const auto each = [&](std::size_t accumulate, std::size_t ahead) {
    const auto time = [&](std::size_t m) {
      return replay(straight(PipelineKind::two_bw, 4, m, accumulate, ahead), costs).makespan;
    };
    return (time(80) - time(40)) / 40;
  };
  CHECK(each(8, 1) == Approx(3).epsilon(1e-12));
  CHECK(each(8, 0) > 3.5);
  CHECK(each(4, 1) > 3.1);  // Two versions suffice only for four micro-batches in flight.
}

TEST_CASE("the further ahead a schedule is the longer the transfers it hides") {
  PipelineCosts costs = equal_costs(2, 1, 1, 1);
  costs.boundaries = {{.seconds = 3}};
  const double computing = 32 * 3 + 3;
  const auto step = [&](std::size_t ahead) {
    return replay(straight(PipelineKind::one_f_one_b, 2, 32, 0, ahead), costs).makespan;
  };
  CHECK(step(0) > 1.9 * computing);
  CHECK(step(1) > 1.3 * computing);
  CHECK(step(2) < 1.1 * computing);
}

TEST_CASE("chimera has the bubble of its formula where backward passes are longer") {
  // With p stages and passes of F and B slots, the bubble is (p - 2)(F + B) / 2. It is at most a
  // third more if the lists leave time for transfers and there are more micro-batches than stages.
  const PipelineCosts costs = equal_costs(4, 1, 1, 1);
  for (const std::size_t m : {8, 16, 32}) {
    const double least = static_cast<double>(3 * m);
    const double made = replay(straight(PipelineKind::chimera, 4, m, 0, 1), costs).makespan;
    CHECK(made <= least + 4);
    CHECK(made < replay(straight(PipelineKind::chimera, 4, m), costs).makespan);
  }
}

TEST_CASE("a pipeline that computes activations again pays a forward pass for each") {
  PipelineCosts costs = equal_costs(4, 1, 1, 1);
  const PipelineSchedule schedule = straight(PipelineKind::one_f_one_b, 4, 8);
  const double kept = replay(schedule, costs).makespan;
  for (StageCost& stage : costs.stages) stage.recomputes = true;
  CHECK(replay(schedule, costs).makespan == Approx(kept * 4 / 3).epsilon(1e-12));
}

// ---- Detection of errors ----

TEST_CASE("a schedule short of operations is refused with what is missing") {
  // The output of a published Chimera generator for six stages and eighteen micro-batches. Each
  // worker has 14 forward and 12 backward passes instead of 18 each.
  PipelineSchedule schedule = straight(PipelineKind::chimera, 6, 18);
  for (auto& list : schedule.workers) {
    std::size_t forward = 0;
    std::size_t backward = 0;
    std::erase_if(list, [&](const PipelineInstruction& operation) {
      if (operation.action == Action::forward) return ++forward > 14;
      return operation.action == Action::backward && ++backward > 12;
    });
  }
  const std::string text = text_of(problems(schedule));
  CHECK_THAT(text, Catch::Contains("goes forward 0 times"));
  CHECK_THAT(text, Catch::Contains("goes back 0 times"));
}

TEST_CASE("each kind of fault in a schedule is named with its place") {
  const PipelineSchedule sound = straight(PipelineKind::one_f_one_b, 3, 4);
  const auto broken = [&](auto change) {
    PipelineSchedule schedule = sound;
    change(schedule);
    return text_of(problems(schedule));
  };
  CHECK_THAT(broken([](auto& s) { s.workers[1].push_back(s.workers[1].front()); }),
             Catch::Contains("micro-batch 0 in stage 1: goes forward 2 times"));
  CHECK_THAT(broken([](auto& s) { s.workers[1].erase(s.workers[1].begin()); }),
             Catch::Contains("worker 1, operation 1: micro-batch 0 in stage 1 goes back before"));
  CHECK_THAT(broken([](auto& s) { s.workers[2].pop_back(); }),
             Catch::Contains("worker 2: 4 gradients of stage 2 are in no update"));
  CHECK_THAT(broken([](auto& s) { std::swap(s.workers[2].back(), s.workers[2][5]); }),
             Catch::Contains("an update comes after"));
  CHECK_THAT(broken([](auto& s) { s.workers[0][2].stage = 7; }),
             Catch::Contains("worker 0, operation 2: there is no stage 7"));
  CHECK_THAT(broken([](auto& s) { s.workers[0][2].micro_batch = 9; }),
             Catch::Contains("worker 0, operation 2: there is no micro-batch 9"));
  CHECK_THAT(broken([](auto& s) { s.workers[0][3].version = 1; }),
             Catch::Contains("is not made yet"));
  CHECK_THAT(broken([](auto& s) {
               const auto moved = s.workers[0].front();
               s.workers[0].erase(s.workers[0].begin());
               s.workers[1].insert(s.workers[1].begin(), moved);
             }),
             Catch::Contains("is at two workers"));
}

TEST_CASE("lists that wait for each other in a circle are refused") {
  // After both changes below, the first stage waits for a gradient before it has sent the input
  // that the second stage waits for.
  PipelineSchedule schedule = straight(PipelineKind::one_f_one_b, 2, 2);
  REQUIRE(words(schedule.workers[0]) == "F0 F1 B0 B1 U0");
  REQUIRE(words(schedule.workers[1]) == "F0 B0 F1 B1 U0");
  std::swap(schedule.workers[1][1], schedule.workers[1][2]);  // The list is now F0 F1 B0 B1.
  CHECK(text_of(problems(schedule)) == "");
  std::swap(schedule.workers[0][1], schedule.workers[0][2]);  // The list is now F0 B0 F1 B1.
  const std::string text = text_of(problems(schedule));
  CHECK_THAT(text, Catch::Contains("worker 0, operation 1: B0.0 waits for ever"));
  CHECK_THAT(text, Catch::Contains("worker 1, operation 1: F1.1 waits for ever"));
}

TEST_CASE("a channel that is full stops only those lists that do not empty it") {
  // All forward passes come before any backward pass, so the first stage may run ahead by the
  // length of the channel.
  const PipelineSchedule gpipe = straight(PipelineKind::gpipe, 2, 4);
  CHECK(text_of(problems(gpipe, {.channel = 1})) == "");
  PipelineSchedule late = gpipe;
  // The second stage takes the last micro-batch first, although three others are before it in the
  // channel.
  std::rotate(late.workers[1].begin(), late.workers[1].begin() + 3, late.workers[1].begin() + 4);
  CHECK(text_of(problems(late)) == "");
  CHECK(text_of(problems(late, {.channel = 4})) == "");
  CHECK_THAT(text_of(problems(late, {.channel = 2})), Catch::Contains("waits for ever"));
}

TEST_CASE("a schedule that keeps more than there is room for is refused") {
  const PipelineSchedule gpipe = straight(PipelineKind::gpipe, 2, 4);
  CHECK(text_of(problems(gpipe, {.in_flight = {4, 4}})) == "");
  CHECK_THAT(text_of(problems(gpipe, {.in_flight = {4, 3}})),
             Catch::Contains("worker 1: it keeps 4 micro-batches at once; it has room for 3"));
}

TEST_CASE("a test takes each micro-batch through each stage once and never waits in a circle") {
  Rng rng(5);
  for (std::size_t i = 0; i < 200; ++i) {
    const std::size_t stages = 1 + rng.below(4), replicas = 1 + rng.below(3);
    const std::size_t count = 1 + rng.below(20), window = 1 + rng.below(6);
    const bool mirrored = replicas == 1 && rng.chance(0.5);
    const Routes routes =
        mirrored ? mirrored_routes(stages, count) : random_routes(stages, replicas, count, rng);
    std::vector<std::vector<PipelineInstruction>> lists;
    for (std::uint32_t worker = 0; worker < stages * replicas; ++worker) {
      lists.push_back(test_instructions(routes, worker, 7, window));
    }
    INFO(stages << " stages, " << replicas << " replicas, " << count << " in windows of "
                << window);
    // Each worker executes its next instruction once the other worker's instruction that it depends
    // on is done.
    std::set<std::pair<std::size_t, std::size_t>> forward, answers;
    std::vector<std::size_t> at(lists.size());
    for (bool goes_on = true; goes_on;) {
      goes_on = false;
      for (std::size_t worker = 0; worker < lists.size(); ++worker) {
        if (at[worker] == lists[worker].size()) continue;
        const PipelineInstruction& what = lists[worker][at[worker]];
        REQUIRE(what.tests);
        const std::size_t b = what.micro_batch - 7, s = what.stage;
        REQUIRE(routes[b][s] == worker);
        const bool is_forward = what.action == Action::forward;
        const bool is_ready = is_forward ? s == 0 || forward.contains({b, s - 1})
                                         : s + 1 == stages || answers.contains({b, s + 1});
        if (!is_ready) continue;
        REQUIRE((is_forward ? forward : answers).insert({b, s}).second);
        // A worker has at most `window` micro-batches under way.
        for (std::size_t old = 0; is_forward && old + window <= b; ++old) {
          if (routes[old][s] == worker) REQUIRE(answers.contains({old, s}));
        }
        ++at[worker];
        goes_on = true;
      }
    }
    CHECK(forward.size() == count * stages);
    CHECK(answers.size() == (count - std::min(count, window)) * stages);
  }
  CHECK(words(test_instructions(straight_routes(2, 3), 0, 0, 2)) == "T0 T1 A0 T2");
}

TEST_CASE("routes that a kind cannot work over are refused with a remedy") {
  Rng rng(1);
  const Routes random = random_routes(2, 2, 8, rng);
  CHECK(problems(PipelineKind::one_f_one_b, random, 4, 0).empty());
  CHECK_THAT(text_of(problems(PipelineKind::pipedream, random, 4, 0)),
             Catch::Contains("use the fixed router"));
  CHECK_THAT(text_of(problems(PipelineKind::chimera, straight_routes(3, 4), 3, 0)),
             Catch::Contains("use 4 stages"));
  CHECK_THAT(text_of(problems(PipelineKind::two_bw, straight_routes(4, 8), 4, 2)),
             Catch::Contains("accumulate at least 4"));
  CHECK_FALSE(problems(PipelineKind::gpipe, {}, 0, 0).empty());
}

}  // namespace gv
