// The batch that the first member of a group passes on to all members.
#include "train/group_batch.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include "tests/train/group_work.hpp"

namespace gv {
namespace {

constexpr std::size_t batch = 3;
constexpr std::size_t truth = 4;
/// The value that stays in a member's inputs where the member receives nothing.
constexpr float kept = -1;

SlicedStage stage_of(const std::vector<LayerSpec>& layers, const SampleShape& in) {
  ModelSpec spec;
  spec.layers = layers;
  return {Work(spec, in).plan, slices_of_stage};
}

std::vector<GroupPlace> places(const std::vector<double>& speeds) {
  std::vector<GroupPlace> all;
  std::vector<std::size_t> cuts;
  for (const Range& slices : cut(speeds, slices_of_stage)) {
    if (slices.begin > 0) cuts.push_back(slices.begin);
    all.push_back({.slices = slices, .own = all.size(), .members = speeds.size()});
  }
  for (GroupPlace& place : all) place.cuts = cuts;
  return all;
}

const LayerSpec convolution{
    .kind = LayerKind::conv2d, .units = 16, .kernel = 3, .padding = 1, .split = LayerSplit::rows};
const LayerSpec pool{.kind = LayerKind::max_pool, .kernel = 4};

}  // namespace

TEST_CASE("members of a group that begins with strips get the rows that they read") {
  const SampleShape shape{2, 96, 5};
  const SlicedStage stage = stage_of({convolution, pool}, shape);
  const GroupBatch dealt(stage, batch, truth);
  std::vector<float> whole(batch * elements(shape) + truth);
  std::iota(whole.begin(), whole.end(), 0.0F);
  for (const std::vector<double>& speeds : groups_of_speeds) {
    CAPTURE(speeds.size());
    const std::vector<GroupPlace> all = places(speeds);
    std::vector<float> given(dealt.sum().size(all.front().cuts));
    dealt.give(whole, all.front(), given);
    for (const GroupPlace& place : all) {
      std::vector<float> inputs(batch * elements(shape), kept);
      const auto own_truth = dealt.take(given, place, inputs);
      CHECK(std::ranges::equal(own_truth, std::span(whole).last(truth)));
      // A strip of pooled rows comes from four times as many rows of the image. The convolution
      // reads one more row on each side.
      const Range pooled = stage.grains_of(24, place.slices);
      const std::size_t begin = pooled.begin == 0 ? 0 : 4 * pooled.begin - 1;
      const std::size_t end = std::min<std::size_t>(96, 4 * pooled.end + 1);
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        const std::size_t row = i / 5 % 96;
        REQUIRE(inputs[i] == (row >= begin && row < end ? whole[i] : kept));
      }
    }
    // Two neighbours both get the two rows at their cut. Every member gets all labels or targets.
    const std::size_t overlap = 2 * batch * 2 * 5;
    CHECK(given.size() ==
          batch * elements(shape) + (speeds.size() - 1) * overlap + speeds.size() * truth);
  }
}

TEST_CASE("members of a group that does not begin with strips get the whole batch") {
  const SampleShape shape{1, 8, 8};
  const SlicedStage stage = stage_of(
      {{.kind = LayerKind::dense, .units = 48}, {.kind = LayerKind::dense, .units = 64}}, shape);
  const GroupBatch whole_for_all(stage, batch, truth);
  const GroupSum sum = whole_for_all.sum();
  CHECK(sum == GroupSum{.always = batch * 64 + truth});
  std::vector<float> whole(sum.always);
  std::iota(whole.begin(), whole.end(), 0.0F);
  std::vector<float> given(sum.always);
  const std::vector<GroupPlace> all = places({1, 1});
  whole_for_all.give(whole, all.front(), given);
  CHECK(given == whole);
  std::vector<float> inputs(batch * 64);
  CHECK(whole_for_all.take(given, all.back(), inputs).front() == batch * 64);
  CHECK(std::ranges::equal(inputs, std::span(whole).first(inputs.size())));
}

}  // namespace gv
