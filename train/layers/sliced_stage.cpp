// Collects the ranges of slices, and merges those that a peer holds.
#include "train/layers/sliced_stage.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "train/layers/cut_part.hpp"
#include "train/layers/group_steps.hpp"

namespace gv {
namespace {

bool has_grains(const GroupStep& step) {
  return step.kind == GroupStep::Kind::unit || step.kind == GroupStep::Kind::classes;
}

/// Sorts ranges and joins those that are adjacent.
std::vector<Range> joined(std::vector<Range> ranges) {
  std::ranges::sort(ranges, {}, &Range::begin);
  std::vector<Range> joined;
  for (const Range& range : ranges) {
    if (range.empty()) continue;
    if (!joined.empty() && joined.back().end == range.begin) {
      joined.back().end = range.end;
    } else {
      joined.push_back(range);
    }
  }
  return joined;
}

/// The layout of the held values, made from the layout of the stage.
Layout layout_of(const Layout& whole, const HeldParameters& held) {
  Layout layout;
  for (const TensorSlot& slot : whole.slots()) {
    const std::size_t size =
        held.held_before(slot.offset + slot.size) - held.held_before(slot.offset);
    if (size == 0) continue;
    std::vector<std::size_t> shape = slot.shape;
    if (size < slot.size && shape.size() > 1) {
      // Either whole rows are held, or some columns of all rows.
      const std::size_t width = slot.size / shape[0];
      const auto first = std::ranges::find_if(
          held.ranges, [&](const Range& range) { return range.end > slot.offset; });
      const std::size_t begin = std::max(first->begin, slot.offset);
      const bool has_rows = std::min(first->end, slot.offset + slot.size) - begin >= width;
      shape = has_rows ? std::vector{size / width, width} : std::vector{shape[0], size / shape[0]};
    } else if (size < slot.size) {
      shape = {size};
    }
    layout.add(slot.name, std::move(shape));
  }
  return layout;
}

}  // namespace

std::size_t HeldParameters::held_before(std::size_t place) const {
  const auto next = std::ranges::upper_bound(ranges, place, {}, &Range::begin);
  if (next == ranges.begin()) return 0;
  const auto at = static_cast<std::size_t>(next - ranges.begin()) - 1;
  return before_[at] + std::min(place, ranges[at].end) - ranges[at].begin;
}

SlicedStage::SlicedStage(ModelPlan plan, std::size_t slices) : plan_(std::move(plan)) {
  std::vector<GroupStep> units = group_steps(plan_);
  const auto is_shared = [](const GroupStep& step) {
    return has_grains(step) || step.kind == GroupStep::Kind::rows;
  };
  if (std::ranges::any_of(units, is_shared)) parts_.resize(slices);
  std::erase_if(units, [](const GroupStep& step) { return !has_grains(step); });
  std::vector<Range> cut;
  for (std::size_t slice = 0; slice < parts_.size(); ++slice) {
    for (const GroupStep& unit : units) {
      const Range own = grains_of(grains(unit.layers), {slice, slice + 1});
      for (const Range& range : cut_ranges(unit.layers, own)) parts_[slice].push_back(range);
    }
    cut.insert(cut.end(), parts_[slice].begin(), parts_[slice].end());
  }
  std::size_t begin = 0;
  for (const Range& range : joined(std::move(cut))) {
    if (range.begin > begin) common_.push_back({begin, range.begin});
    begin = range.end;
  }
  if (begin < plan_.layout.size()) common_.push_back({begin, plan_.layout.size()});
}

Range SlicedStage::grains_of(std::size_t grains, const Range& slices) const {
  const std::size_t all = std::max<std::size_t>(1, parts_.size());
  return {(slices.begin * grains + all - 1) / all, (slices.end * grains + all - 1) / all};
}

std::size_t SlicedStage::size_of(const std::vector<Range>& ranges) {
  std::size_t size = 0;
  for (const Range& range : ranges) size += range.size();
  return size;
}

HeldParameters SlicedStage::held(const Range& slices) const {
  check(slices.begin <= slices.end && slices.end <= parts_.size(), "the stage has these slices");
  HeldParameters held;
  held.slices = slices;
  held.ranges = common_;
  for (std::size_t slice = slices.begin; slice < slices.end; ++slice) {
    held.ranges.insert(held.ranges.end(), parts_[slice].begin(), parts_[slice].end());
  }
  held.ranges = joined(std::move(held.ranges));
  std::size_t before = 0;
  for (const Range& range : held.ranges) {
    held.before_.push_back(before);
    before += range.size();
  }
  held.layout = layout_of(plan_.layout, held);
  const auto runs_of = [&](const std::vector<Range>& ranges) {
    std::vector<HeldRun> runs;
    std::size_t at = 0;
    for (const Range& range : ranges) {
      runs.push_back({.held = held.held_before(range.begin), .part = at, .size = range.size()});
      at += range.size();
    }
    return runs;
  };
  held.common = runs_of(common_);
  for (std::size_t slice = slices.begin; slice < slices.end; ++slice) {
    held.own.push_back(runs_of(parts_[slice]));
  }
  return held;
}

}  // namespace gv
