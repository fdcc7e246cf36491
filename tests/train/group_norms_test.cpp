// Batch norms and dropout that groups compute in strips, compared with the same layers on one peer.
#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

#include "tests/train/group_work.hpp"
#include "tests/train/slope.hpp"

namespace gv {
namespace {

const LayerSpec batch_norm{.kind = LayerKind::batch_norm};

LayerSpec drop(double rate) { return {.kind = LayerKind::dropout, .rate = rate}; }

/// Blocks of a residual network in strips, with batch norms and dropout.
ModelSpec residual_images() {
  ModelSpec spec;
  spec.layers = {conv(4, 3, 1, 1),
                 batch_norm,
                 relu,
                 drop(0.3),
                 {.kind = LayerKind::max_pool, .kernel = 2, .stride = 2},
                 {.kind = LayerKind::residual,
                  .layers = {conv(4, 3, 1, 1), batch_norm, relu, conv(4, 3, 1, 1), batch_norm}},
                 relu,
                 {.kind = LayerKind::residual, .layers = {batch_norm, drop(0.2), conv(4, 1, 1, 0)}},
                 conv(6, 3, 2, 1),
                 batch_norm,
                 {.kind = LayerKind::flatten},
                 drop(0.4),
                 dense(40)};
  return spec;
}

/// Gives batch norms running statistics with a variance of 1.
void give_statistics(Work& work) {
  for (const Range& range : statistics_of(work.plan)) {
    const std::size_t channels = range.size() / 2;
    for (std::size_t mean = range.begin; mean < range.begin + channels; ++mean) {
      work.parameters[mean + channels] = 1 + work.parameters[mean] * work.parameters[mean];
    }
  }
}

}  // namespace

TEST_CASE("a group computes residual blocks with batch norms and dropout as one peer does") {
  for (const bool wants_d_inputs : {true, false}) {
    Work work = Work::drawn(residual_images(), {2, 29, 21});
    work.wants_d_inputs = wants_d_inputs;
    give_statistics(work);
    check_groups(work);
    const Doubles tested = tested_alone(work);
    for (const std::vector<double>& speeds : groups_of_speeds) {
      INFO(speeds.size() << " members");
      CHECK(are_near(tested, Group(work, speeds).test()));
    }
  }
}

TEST_CASE("batch norms in strips sum two numbers for each channel whatever the batch is") {
  Problems problems;
  ModelSpec spec;
  spec.layers = {conv(8, 3, 1, 1), batch_norm, relu, {.kind = LayerKind::flatten}, dense(1)};
  spec.layers.back().split = LayerSplit::none;
  const ModelPlan plan = plan_model(spec, {3, 30, 20}, problems);
  REQUIRE(problems.empty());
  const std::vector<GroupSum> forward = sums_of(plan, false, true);
  REQUIRE(forward.size() == 2);
  // The first sum contains a mean and a sum of squares from each member. The second sum contains
  // whole images.
  CHECK(forward[0].times(100).size(std::vector<std::size_t>{12}) == 2 * 2 * 8);
  CHECK(forward[1] == GroupSum{8 * 30 * 20});
  CHECK(sums_in_tests(forward) == std::vector<GroupSum>{forward[1]});
  const std::vector<GroupSum> backward = sums_of(plan, true, true);
  REQUIRE(backward.size() == 2);
  CHECK(backward[0].times(100).size(std::vector<std::size_t>{12}) == 2 * 8);
  CHECK(backward[1] == GroupSum{3 * 30 * 20});
}

TEST_CASE("a batch norm in strips has the gradient of finite differences") {
  ModelSpec spec;
  spec.layers = {conv(2, 3, 1, 1),
                 batch_norm,
                 {.kind = LayerKind::tanh},
                 drop(0.3),
                 {.kind = LayerKind::residual, .layers = {batch_norm, conv(2, 3, 1, 1)}},
                 dense(3)};
  Work work = Work::drawn(spec, {1, 6, 4});
  const std::vector<double> speeds{3, 1};
  const Passes passes = Group(work, speeds).run();
  const auto projected = [&] {
    const Doubles y = Group(work, speeds).run().y;
    double sum = 0;
    for (std::size_t i = 0; i < y.size(); ++i) sum += work.dy[i] * y[i];
    return sum;
  };
  const auto compare = [&](double& value, double analytic) {
    CHECK(analytic == Approx(slope(value, projected)).epsilon(1e-5).margin(1e-6));
  };
  for (std::size_t i = 0; i < work.x.size(); ++i) compare(work.x[i], passes.dx[i]);
  const std::vector<Range> statistics = statistics_of(work.plan);
  for (std::size_t i = 0; i < work.parameters.size(); ++i) {
    const bool is_statistic = std::ranges::any_of(
        statistics, [&](const Range& range) { return i >= range.begin && i < range.end; });
    if (!is_statistic) compare(work.parameters[i], passes.gradient[i]);
  }
}

TEST_CASE("dropout in strips drops what one peer drops bit for bit") {
  ModelSpec spec;
  // At this dropout rate, kept values are doubled, so sums are exact.
  spec.layers = {conv(5, 3, 1, 1),
                 drop(0.5),
                 relu,
                 drop(0.5),
                 conv(7, 4, 1, 2),
                 drop(0.5),
                 {.kind = LayerKind::flatten},
                 drop(0.5),
                 dense(3)};
  const Work work = Work::dyadic(spec, {2, 11, 6});
  const auto steps = group_steps(work.plan);
  CHECK(std::ranges::count_if(steps, [](const GroupStep& step) {
          return step.kind == GroupStep::Kind::rows &&
                 step.layers.front().spec.kind == LayerKind::dropout;
        }) == 3);
  const Passes serial = alone(work);
  const Doubles tested = tested_alone(work);
  CHECK(tested != serial.y);
  for (const std::vector<double>& speeds : groups_of_speeds) {
    INFO(speeds.size() << " members");
    Group group(work, speeds);
    CHECK(group.run() == serial);
    CHECK(group.test() == tested);
  }
}

}  // namespace gv
