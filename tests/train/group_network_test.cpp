// Stages that groups compute, against the same layers on one peer.
#include "train/layers/group_network.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

#include "base/shares.hpp"
#include "tests/train/drawn.hpp"
#include "tests/train/dyadic.hpp"
#include "train/layers/network.hpp"
#include "train/learner/group_place.hpp"

namespace gv {
namespace {

using Doubles = std::vector<double>;

LayerSpec dense(std::size_t units, bool per_position = false) {
  return {.kind = LayerKind::dense, .units = units, .per_position = per_position};
}

/// A block of a transformer: every kind of unit inside residual layers, and layers between them
/// that all members compute.
ModelSpec block() {
  ModelSpec spec;
  spec.layers = {{.kind = LayerKind::residual,
                  .layers = {{.kind = LayerKind::layer_norm, .per_position = true},
                             {.kind = LayerKind::attention, .heads = 4}}},
                 {.kind = LayerKind::residual,
                  .layers = {{.kind = LayerKind::layer_norm, .per_position = true},
                             dense(48, true),
                             {.kind = LayerKind::gelu},
                             dense(32, true)}},
                 {.kind = LayerKind::dropout, .rate = 0.3},
                 {.kind = LayerKind::layer_norm, .per_position = true},
                 dense(5, true)};
  return spec;
}

struct Work {
  ModelPlan plan;
  std::size_t batch = 3;
  bool wants_d_inputs = true;
  Doubles parameters, x, dy;

  Work(const ModelSpec& spec, SampleShape in) {
    Problems problems;
    plan = plan_model(spec, in, problems);
    REQUIRE(problems.empty());
  }

  static Work drawn(const ModelSpec& spec, SampleShape in) {
    Work work(spec, in);
    Rng rng(5);
    work.parameters = normals<double>(work.plan.layout.size(), rng);
    work.x = normals<double>(work.batch * elements(in), rng);
    work.dy = normals<double>(work.batch * work.plan.outputs, rng);
    return work;
  }

  static Work dyadic(const ModelSpec& spec, SampleShape in) {
    Work work(spec, in);
    work.parameters = dyadic_w.values<double>(work.plan.layout.size());
    work.x = dyadic_x.values<double>(work.batch * elements(in));
    work.dy = dyadic_dy.values<double>(work.batch * work.plan.outputs);
    return work;
  }
};

struct Passes {
  Doubles y, dx, gradient;

  friend bool operator==(const Passes&, const Passes&) = default;
};

Passes alone(const Work& work) {
  const auto network = make_plain_network<double>(work.plan, work.batch);
  Rng rng(7);
  Passes passes;
  const auto y = network->forward(work.parameters, work.x, true, rng);
  passes.y.assign(y.begin(), y.end());
  passes.gradient.resize(work.parameters.size());
  const auto dx =
      network->backward(work.parameters, work.dy, passes.gradient, {}, work.wants_d_inputs);
  passes.dx.assign(dx.begin(), dx.end());
  return passes;
}

/// Slices in proportion to speeds.
std::vector<Range> cut(const std::vector<double>& speeds, std::size_t slices) {
  std::vector<Range> ranges;
  std::size_t begin = 0;
  for (const std::uint32_t share : batch_shares(speeds, static_cast<std::uint32_t>(slices),
                                                static_cast<std::uint32_t>(slices))) {
    ranges.push_back({begin, begin + share});
    begin += share;
  }
  return ranges;
}

/// Members in lockstep: each sum is over what all of them have returned. Each holds its own slices.
class Group {
 public:
  Group(const Work& work, const std::vector<double>& speeds)
      : work_(work), stage_(work.plan, slices_of_stage) {
    for (const Range& slices : cut(speeds, stage_.slices())) {
      held_.push_back(stage_.held(slices));
      members_.emplace_back(stage_, held_.back(), work.batch, members_.empty(),
                            work.wants_d_inputs);
      own_.push_back(held_.back().take(std::span<const double>(work.parameters)));
    }
  }

  Passes run() {
    Passes passes;
    passes.y = pass(
        false, [&](std::size_t m) { return members_[m].begin(own_[m], work_.x, Rng(7)); },
        [&](std::size_t m, const Doubles& sum) { return members_[m].go_on(sum); });
    passes.dx = pass(
        true, [&](std::size_t m) { return members_[m].begin_back(work_.dy); },
        [&](std::size_t m, const Doubles& sum) { return members_[m].go_on_back(sum); });
    passes.gradient.resize(work_.parameters.size());
    for (std::size_t m = 0; m < members_.size(); ++m) add_gradient(m, passes.gradient);
    return passes;
  }

  /// Adds the gradient of a member's slices. From the first member, also adds that of the
  /// parameters that all have.
  void add_gradient(std::size_t m, Doubles& whole) {
    Doubles own(own_[m].size());
    members_[m].write_gradient(own);
    std::vector<bool> is_sliced(whole.size());
    for (std::size_t slice = 0; slice < stage_.slices(); ++slice) {
      for (const Range& range : stage_.ranges_of_slice(slice)) {
        for (std::size_t i = range.begin; i < range.end; ++i) is_sliced[i] = true;
      }
    }
    std::size_t at = 0;
    for (const Range& range : held_[m].ranges) {
      for (std::size_t i = range.begin; i < range.end; ++i, ++at) {
        if (m == 0 || is_sliced[i]) whole[i] += own[at];
      }
    }
  }

 private:
  template <class Begin, class GoOn>
  Doubles pass(bool backward, Begin begin, GoOn go_on) {
    std::vector<Doubles> results;
    for (std::size_t m = 0; m < members_.size(); ++m) {
      const auto result = begin(m);
      results.emplace_back(result.begin(), result.end());
    }
    for (const std::size_t sum : group_sums(work_.plan, backward, work_.wants_d_inputs)) {
      REQUIRE(results.front().size() == work_.batch * sum);
      Doubles total(results.front().size());
      for (const Doubles& summand : results) {
        for (std::size_t i = 0; i < total.size(); ++i) total[i] += summand[i];
      }
      for (std::size_t m = 0; m < members_.size(); ++m) {
        const auto result = go_on(m, total);
        results[m].assign(result.begin(), result.end());
      }
    }
    for (const Doubles& result : results) CHECK(result == results.front());
    return results.front();
  }

  const Work& work_;
  SlicedStage stage_;
  std::vector<HeldParameters> held_;
  std::vector<GroupNetwork<double>> members_;
  std::vector<Doubles> own_;
};

bool are_near(const Doubles& a, const Doubles& b) {
  double largest = 1;
  for (const double value : a) largest = std::max(largest, std::abs(value));
  return std::ranges::equal(a, b,
                            [&](double x, double y) { return std::abs(x - y) <= 1e-12 * largest; });
}

const std::vector<std::vector<double>> groups_of_speeds = {
    {1}, {1, 1}, {3, 1}, {8, 8, 4, 2}, {1, 2, 3, 1, 2}, {1, 1, 1, 1, 1, 1, 1, 1}};

ModelSpec pair_and_single(std::size_t hidden, std::size_t outputs) {
  ModelSpec spec;
  spec.layers = {dense(hidden),
                 {.kind = LayerKind::relu},
                 dense(40),
                 {.kind = LayerKind::relu},
                 dense(outputs)};
  return spec;
}

}  // namespace

TEST_CASE("slices and what all members have make up a stage") {
  for (const std::size_t slices : {1, 3, 24}) {
    const Work work = Work::drawn(block(), {6, 1, 32});
    const SlicedStage stage(work.plan, slices);
    std::size_t all = stage.common_size();
    for (std::size_t slice = 0; slice < slices; ++slice) all += stage.slice_size(slice);
    CHECK(all == work.plan.layout.size());
    const HeldParameters whole = stage.held({0, slices});
    CHECK(whole.layout == work.plan.layout);
    CHECK(whole.ranges == std::vector<Range>{{0, all}});
    const HeldParameters none = stage.held({0, 0});
    CHECK(none.layout.size() == stage.common_size());
  }
}

TEST_CASE("a member's tensors have fewer rows and columns than those of the stage") {
  Problems problems;
  const ModelPlan plan = plan_model(pair_and_single(48, 64), {1, 5, 6}, problems);
  const HeldParameters held = SlicedStage(plan, 24).held({6, 12});
  const auto shape_of = [&](const std::string& name) {
    return std::ranges::find(held.layout.slots(), name, &TensorSlot::name)->shape;
  };
  const std::string second = plan.layout.slots()[2].name;
  CHECK(shape_of(plan.layout.slots()[0].name) == std::vector<std::size_t>{12, 30});
  CHECK(shape_of(plan.layout.slots()[1].name) == std::vector<std::size_t>{12});
  CHECK(shape_of(second) == std::vector<std::size_t>{40, 12});
  CHECK(shape_of(plan.layout.slots()[3].name) == std::vector<std::size_t>{40});
}

TEST_CASE("a group computes on dyadic data the bits of one peer") {
  // The last layer is cut by its inputs in the first model, and by its outputs in the second.
  for (const std::size_t outputs : {26, 64}) {
    for (const bool wants_d_inputs : {true, false}) {
      Work work = Work::dyadic(pair_and_single(48, outputs), {1, 5, 6});
      work.wants_d_inputs = wants_d_inputs;
      const Passes serial = alone(work);
      CHECK(group_sums(work.plan, true, wants_d_inputs).size() == (wants_d_inputs ? 2 : 1));
      for (const std::vector<double>& speeds : groups_of_speeds) {
        INFO(speeds.size() << " members, " << outputs << " outputs");
        CHECK(Group(work, speeds).run() == serial);
      }
    }
  }
}

TEST_CASE("a group computes a block of a transformer as one peer does") {
  const Work work = Work::drawn(block(), {6, 1, 32});
  const Passes serial = alone(work);
  CHECK(group_sums(work.plan, false, true) == std::vector<std::size_t>{6 * 32, 6 * 32});
  for (const std::vector<double>& speeds : groups_of_speeds) {
    INFO(speeds.size() << " members");
    const Passes passes = Group(work, speeds).run();
    CHECK(are_near(serial.y, passes.y));
    CHECK(are_near(serial.dx, passes.dx));
    CHECK(are_near(serial.gradient, passes.gradient));
  }
}

TEST_CASE("a group computes layers inside stacks and leaves branches whole") {
  const LayerSpec stack{.kind = LayerKind::stack, .layers = {dense(48), dense(64)}};
  const LayerSpec branches{.kind = LayerKind::concat, .layers = {dense(64), dense(48)}};
  for (const auto& layers : std::vector<std::vector<LayerSpec>>{
           {dense(32), stack},
           {dense(64), {.kind = LayerKind::residual, .layers = {stack}}},
           {{.kind = LayerKind::flatten}, branches, dense(64)}}) {
    ModelSpec spec;
    spec.layers = layers;
    const Work work = Work::drawn(spec, {1, 5, 6});
    CHECK_FALSE(group_sums(work.plan, false, true).empty());
    const Passes serial = alone(work);
    for (const std::vector<double>& speeds : groups_of_speeds) {
      const Passes passes = Group(work, speeds).run();
      CHECK(are_near(serial.y, passes.y));
      CHECK(are_near(serial.dx, passes.dx));
      CHECK(are_near(serial.gradient, passes.gradient));
    }
  }
}

TEST_CASE("layers whose sum would take longer than they do are computed by every member") {
  Problems problems;
  const ModelPlan plan = plan_model(pair_and_single(8, 8), {1, 5, 6}, problems);
  CHECK(group_sums(plan, false, true).empty());
  for (const GroupStep& step : group_steps(plan)) CHECK(step.kind == GroupStep::Kind::whole);
}

}  // namespace gv
