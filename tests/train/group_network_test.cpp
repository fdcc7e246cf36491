// Stages that groups compute, against the same layers on one peer.
#include "train/layers/group_network.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/shares.hpp"
#include "tests/train/drawn.hpp"
#include "tests/train/dyadic.hpp"
#include "train/layers/loss.hpp"
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
  std::vector<std::int32_t> labels;  ///< Needed if the last layer goes by classes.

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
    const std::vector<Range> all = cut(speeds, stage_.slices());
    for (const Range& slices : all) {
      if (slices.begin > 0 && (cuts_.empty() || cuts_.back() < slices.begin))
        cuts_.push_back(slices.begin);
    }
    for (const Range& slices : all) {
      const GroupPlace place{
          .slices = slices, .own = members_.size(), .members = all.size(), .cuts = cuts_};
      held_.push_back(stage_.held(slices));
      members_.emplace_back(stage_, held_.back(), work.batch, place, work.wants_d_inputs);
      own_.push_back(held_.back().take(std::span<const double>(work.parameters)));
    }
  }

  Passes run() {
    Passes passes;
    passes.y = pass(
        false,
        [&](std::size_t m) { return members_[m].begin(own_[m], work_.x, work_.labels, Rng(7)); },
        [&](std::size_t m, const Doubles& sum) { return members_[m].go_on(sum); });
    passes.dx = pass(
        true,
        [&](std::size_t m) {
          return members_[m].begin_back(members_[m].loss() ? Doubles() : work_.dy);
        },
        [&](std::size_t m, const Doubles& sum) { return members_[m].go_on_back(sum); });
    passes.gradient.resize(work_.parameters.size());
    for (std::size_t m = 0; m < members_.size(); ++m) add_gradient(m, passes.gradient);
    return passes;
  }

  const std::optional<LossSum>& loss(std::size_t m) const { return members_[m].loss(); }
  std::size_t members() const { return members_.size(); }

  /// Adds the gradient of a member's slices, and what it adds to that of the parameters that all
  /// have.
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
        if (is_sliced[i] || members_[m].adds_to_common()) whole[i] += own[at];
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
    for (const GroupSum& sum : group_sums(stage_, backward, work_.wants_d_inputs)) {
      REQUIRE(results.front().size() == sum.times(work_.batch).size(cuts_));
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
  std::vector<std::size_t> cuts_;
  std::vector<HeldParameters> held_;
  std::vector<GroupNetwork<double>> members_;
  std::vector<Doubles> own_;
};

std::vector<GroupSum> sums_of(const ModelPlan& plan, bool backward, bool wants_d_inputs) {
  return group_sums(SlicedStage(plan, slices_of_stage), backward, wants_d_inputs);
}

bool are_near(const Doubles& a, const Doubles& b) {
  double largest = 1;
  for (const double value : a) largest = std::max(largest, std::abs(value));
  return std::ranges::equal(a, b,
                            [&](double x, double y) { return std::abs(x - y) <= 1e-12 * largest; });
}

const std::vector<std::vector<double>> groups_of_speeds = {
    {1}, {1, 1}, {3, 1}, {8, 8, 4, 2}, {1, 2, 3, 1, 2}, {1, 1, 1, 1, 1, 1, 1, 1}};

/// Groups of all sizes compute what one peer does.
void check_groups(const Work& work) {
  const Passes serial = alone(work);
  for (const std::vector<double>& speeds : groups_of_speeds) {
    INFO(speeds.size() << " members");
    const Passes passes = Group(work, speeds).run();
    CHECK(are_near(serial.y, passes.y));
    CHECK(are_near(serial.dx, passes.dx));
    CHECK(are_near(serial.gradient, passes.gradient));
  }
}

LayerSpec conv(std::size_t units, std::size_t kernel, std::size_t stride, std::size_t padding,
               LayerSplit split = LayerSplit::rows) {
  return {.kind = LayerKind::conv2d,
          .units = units,
          .kernel = kernel,
          .stride = stride,
          .padding = padding,
          .split = split};
}

const LayerSpec relu{.kind = LayerKind::relu};

/// Strips that begin and end, go on through pools and residual layers, and are shorter than the
/// rows that they read of others.
ModelSpec images() {
  ModelSpec spec;
  spec.layers = {
      conv(4, 5, 1, 2),
      relu,
      {.kind = LayerKind::max_pool, .kernel = 2, .stride = 2},
      conv(4, 3, 2, 1),
      {.kind = LayerKind::residual, .layers = {conv(4, 3, 1, 1), relu, conv(4, 7, 1, 3)}},
      relu,
      {.kind = LayerKind::residual,
       .layers = {{.kind = LayerKind::group_norm, .groups = 2}, conv(4, 1, 1, 0)}},
      {.kind = LayerKind::residual, .layers = {{.kind = LayerKind::layer_norm}, conv(4, 1, 1, 0)}},
      conv(6, 3, 1, 0),
      {.kind = LayerKind::avg_pool, .kernel = 3, .stride = 1},
      {.kind = LayerKind::flatten},
      dense(40)};
  return spec;
}

/// Its loss needs all outputs.
ModelSpec pair_and_single(std::size_t hidden, std::size_t outputs) {
  ModelSpec spec;
  spec.loss = LossKind::squared;
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
      CHECK(sums_of(work.plan, true, wants_d_inputs).size() == (wants_d_inputs ? 2 : 1));
      for (const std::vector<double>& speeds : groups_of_speeds) {
        INFO(speeds.size() << " members, " << outputs << " outputs");
        CHECK(Group(work, speeds).run() == serial);
      }
    }
  }
}

TEST_CASE("a group computes a block of a transformer as one peer does") {
  const Work work = Work::drawn(block(), {6, 1, 32});
  CHECK(sums_of(work.plan, false, true) == std::vector<GroupSum>{{6 * 32}, {6 * 32}});
  check_groups(work);
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
    CHECK_FALSE(sums_of(work.plan, false, true).empty());
    check_groups(work);
  }
}

TEST_CASE("a group computes images in strips as one peer does") {
  for (const bool wants_d_inputs : {true, false}) {
    Work work = Work::drawn(images(), {2, 29, 21});
    work.wants_d_inputs = wants_d_inputs;
    check_groups(work);
  }
}

TEST_CASE("strips and channels of convolutions have on dyadic data the bits of one peer") {
  for (const LayerSplit split : {LayerSplit::rows, LayerSplit::model}) {
    for (const bool wants_d_inputs : {true, false}) {
      ModelSpec spec;
      spec.layers = {conv(5, 3, 1, 1, split), relu, conv(7, 4, 1, 2, split), dense(3)};
      Work work = Work::dyadic(spec, {2, 11, 6});
      work.wants_d_inputs = wants_d_inputs;
      const Passes serial = alone(work);
      for (const std::vector<double>& speeds : groups_of_speeds) {
        INFO(speeds.size() << " members");
        CHECK(Group(work, speeds).run() == serial);
      }
    }
  }
}

TEST_CASE("a group shares a vocabulary and computes the loss without gathering logits") {
  for (const bool tied : {true, false}) {
    ModelSpec spec = block();
    spec.layers.insert(
        spec.layers.begin(),
        {.kind = LayerKind::embedding, .units = 32, .vocabulary = 50, .split = LayerSplit::model});
    spec.layers.back() = dense(50, true);
    spec.layers.back().tied = tied;
    Work work(spec, {6, 1, 1});
    work.wants_d_inputs = false;
    Rng rng(5);
    work.parameters = normals<double>(work.plan.layout.size(), rng);
    for (std::size_t i = 0; i < work.batch * 6; ++i) {
      work.x.push_back(static_cast<double>(rng.below(50)));
      work.labels.push_back(static_cast<std::int32_t>(rng.below(50)));
    }
    // One peer has all logits.
    const auto network = make_plain_network<double>(work.plan, work.batch);
    Rng dropout(7);
    const auto logits = network->forward(work.parameters, work.x, true, dropout);
    work.dy.resize(logits.size());
    const LossSum loss = cross_entropy<double>(logits, work.labels, 50, work.dy);
    Doubles gradient(work.parameters.size());
    network->backward(work.parameters, work.dy, gradient, {}, false);
    for (const std::vector<double>& speeds : groups_of_speeds) {
      INFO(speeds.size() << " members, tied " << tied);
      Group group(work, speeds);
      const Passes passes = group.run();
      CHECK(passes.y.empty());
      for (std::size_t m = 0; m < group.members(); ++m) {
        REQUIRE(group.loss(m));
        CHECK(group.loss(m)->loss == Approx(loss.loss).epsilon(1e-12));
        CHECK(group.loss(m)->correct == loss.correct);
      }
      CHECK(are_near(gradient, passes.gradient));
    }
    // The rows of the embedding, two sums of the block, and four numbers a position and member.
    const std::vector<GroupSum> sums = sums_of(work.plan, false, false);
    REQUIRE(sums.size() == 4);
    CHECK(sums.front() == GroupSum{6 * 32});
    CHECK(sums.back().size(std::vector<std::size_t>{12}) == 2 * 4 * 6);
    const HeldParameters half =
        SlicedStage(work.plan, slices_of_stage).held({0, slices_of_stage / 2});
    CHECK(half.layout.slots().front().shape == std::vector<std::size_t>{25, 32});
  }
}

TEST_CASE("members of a group hold and exchange only the rows that windows read") {
  Problems problems;
  ModelSpec spec;
  spec.layers = {conv(8, 3, 1, 1), relu, conv(8, 5, 1, 2), dense(10)};
  const SlicedStage stage(plan_model(spec, {3, 48, 32}, problems), slices_of_stage);
  REQUIRE(problems.empty());
  // The second convolution reads two rows on both sides of a cut. Then images come together.
  const std::vector<std::size_t> half{12};
  const std::vector<GroupSum> forward = group_sums(stage, false, true);
  REQUIRE(forward.size() == 3);
  CHECK(forward[0].size(half) == 4 * 32 * 8);
  CHECK(forward[0].size(std::vector<std::size_t>{6, 12, 18}) == 3 * 4 * 32 * 8);
  CHECK(forward[1] == GroupSum{8 * 48 * 32});
  const std::vector<GroupSum> backward = group_sums(stage, true, true);
  REQUIRE(backward.size() == 3);
  CHECK(backward[1].size(half) == 4 * 32 * 8);
  CHECK(backward[2] == GroupSum{3 * 48 * 32});
  CHECK(group_sums(stage, true, false).size() == 2);
}

TEST_CASE("activations and pools after a convolution by rows cost no exchange") {
  const LayerSpec pool{.kind = LayerKind::max_pool, .kernel = 3, .stride = 2};
  const LayerSpec mean{.kind = LayerKind::avg_pool, .kernel = 2, .stride = 1};
  ModelSpec spec;
  spec.layers = {conv(4, 3, 1, 1), relu, pool, mean, conv(5, 5, 1, 2), relu, dense(10)};
  const Work work = Work::drawn(spec, {2, 51, 12});
  // The pools leave 24 rows of 4, of which the convolution reads two on both sides of a cut.
  const std::vector<std::size_t> half{12};
  const std::vector<GroupSum> forward = sums_of(work.plan, false, true);
  REQUIRE(forward.size() == 3);
  CHECK(forward[0].size(half) == 4 * 4 * 4);
  CHECK(sums_of(work.plan, true, false).size() == 2);
  check_groups(work);
  // A pool with padding has an exchange of its own, and so does the pool after it.
  spec.layers[2].padding = 1;
  CHECK(sums_of(Work::drawn(spec, {2, 51, 12}).plan, false, true).size() == 5);
  // So has a pool that leaves few rows, or members could not share the convolution evenly.
  spec.layers[2] = {.kind = LayerKind::max_pool, .kernel = 3, .stride = 3};
  CHECK(sums_of(Work::drawn(spec, {2, 51, 12}).plan, false, true).size() == 5);
}

TEST_CASE("convolutions are shared by rows if that is worth it and nothing else is wanted") {
  const auto kinds = [](LayerSpec layer, std::size_t side) {
    Problems problems;
    ModelSpec spec;
    spec.layers = {std::move(layer), relu, dense(2)};
    std::size_t rows = 0;
    for (const GroupStep& step : group_steps(plan_model(spec, {4, side, side}, problems))) {
      if (step.kind == GroupStep::Kind::rows) rows += step.layers.size();
    }
    REQUIRE(problems.empty());
    return rows;
  };
  const LayerSpec large = conv(16, 3, 1, 1, LayerSplit::automatic);
  CHECK(kinds(large, 16) == 2);
  CHECK(kinds(large, 8) == 0);
  CHECK(kinds(conv(16, 3, 1, 1, LayerSplit::rows), 8) == 2);
  CHECK(kinds(conv(16, 3, 1, 1, LayerSplit::none), 16) == 0);
  CHECK(kinds(conv(16, 3, 1, 1, LayerSplit::model), 16) == 0);
}

TEST_CASE("a model without layers is refused") {
  Problems problems;
  plan_model({}, {4, 1, 1}, problems);
  CHECK(problems.size() == 1);
}

TEST_CASE("a layer that cannot be shared as it says is refused") {
  const auto reason_of = [](LayerSpec layer, const SampleShape& in) {
    Problems problems;
    ModelSpec spec;
    spec.layers = {std::move(layer), dense(2)};
    plan_model(spec, in, problems);
    return problems.empty() ? std::string() : problems.front().reason;
  };
  LayerSpec by_rows = dense(5);
  by_rows.split = LayerSplit::rows;
  CHECK(reason_of(by_rows, {8, 1, 1}).find("only convolutions and pools") == 0);
  const LayerSpec pool{.kind = LayerKind::max_pool, .kernel = 2, .split = LayerSplit::model};
  CHECK(reason_of(pool, {1, 8, 8}).find("a pool has nothing") == 0);
  LayerSpec none = dense(5);
  none.split = LayerSplit::none;
  CHECK(reason_of(none, {8, 1, 1}).empty());
}

TEST_CASE("layers whose sum would take longer than they do are computed by every member") {
  Problems problems;
  const ModelPlan plan = plan_model(pair_and_single(8, 8), {1, 5, 6}, problems);
  CHECK(sums_of(plan, false, true).empty());
  for (const GroupStep& step : group_steps(plan)) CHECK(step.kind == GroupStep::Kind::whole);
}

}  // namespace gv
