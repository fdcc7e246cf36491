// Stages that groups compute, compared with the same layers on one peer.
#include "train/layers/group_network.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/train/group_work.hpp"
#include "train/layers/loss.hpp"

namespace gv {
namespace {

/// A transformer block. Its residual layers contain every kind of unit, and between the units are
/// layers that all members compute.
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

/// A model of images whose layers are cut into strips, even through pools and residual layers. A
/// strip can be shorter than the rows that it reads from other members.
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

/// A model of dense layers whose loss needs all outputs.
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
    // One peer computes all logits.
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
    // The sums are the rows of the embedding, two sums of the block, and four numbers for each
    // position and member.
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
  // The second convolution reads two rows on both sides of a cut. After this convolution, images
  // are put together.
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
  // The pools leave 24 rows of 4 values. The convolution reads two rows on both sides of a cut.
  const std::vector<std::size_t> half{12};
  const std::vector<GroupSum> forward = sums_of(work.plan, false, true);
  REQUIRE(forward.size() == 3);
  CHECK(forward[0].size(half) == 4 * 4 * 4);
  CHECK(sums_of(work.plan, true, false).size() == 2);
  check_groups(work);
  // A pool with padding has an exchange of its own, and so does the pool after it.
  spec.layers[2].padding = 1;
  CHECK(sums_of(Work::drawn(spec, {2, 51, 12}).plan, false, true).size() == 5);
  // A pool that leaves few rows also has an exchange of its own, because members could not share
  // the convolution evenly.
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
