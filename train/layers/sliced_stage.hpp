// The places of a stage's slices in its parameters, and the parameters of a peer with some slices.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "base/range.hpp"
#include "train/layers/plan.hpp"

namespace gv {

/// Parameters that are adjacent both in the peer's vector and in a part of the stage.
struct HeldRun {
  std::size_t held = 0;  ///< Where the run begins in the peer's vector.
  std::size_t part = 0;  ///< Where the run begins in the part.
  std::size_t size = 0;
};

/// The parameters of a stage that a peer holds: those that all carriers of the stage have, and some
/// slices. They are the stage's flat vector without the other slices, so a layer's tensors keep
/// their order, but have fewer rows or columns.
struct HeldParameters {
  Range slices;
  std::vector<Range> ranges;  ///< Ranges of the stage's vector, ascending, not adjacent.
  Layout layout;  ///< Tensors in their held form. A tensor without held parameters is left out.
  std::vector<HeldRun> common;
  std::vector<std::vector<HeldRun>> own;  ///< Runs by slice, beginning with the first held slice.

  /// Number of held parameters that come before this place in the stage's vector.
  std::size_t held_before(std::size_t place) const;

  /// Extracts the held parameters from a vector of the whole stage.
  template <class T>
  std::vector<T> take(std::span<const T> whole) const {
    std::vector<T> values;
    values.reserve(layout.size());
    for (const Range& range : ranges) {
      const auto from = whole.subspan(range.begin, range.size());
      values.insert(values.end(), from.begin(), from.end());
    }
    return values;
  }

  /// Calls `use` with each run of the held slices. In these runs, `part` is a place among the
  /// parameters of all held slices.
  template <class Use>
  void for_each_sliced(const Use& use) const {
    std::size_t begin = 0;
    for (const std::vector<HeldRun>& slice : own) {
      for (const HeldRun& run : slice)
        use(HeldRun{.held = run.held, .part = begin + run.part, .size = run.size});
      if (!slice.empty()) begin += slice.back().part + slice.back().size;
    }
  }

 private:
  friend class SlicedStage;
  std::vector<std::size_t> before_;  ///< Number of held parameters before each range.
};

/// Calls `use` for each run of parameters in both `before` and `now`, with the old place, the new
/// place and the length of the run.
template <class Use>
void for_each_kept(const HeldParameters& before, const HeldParameters& now, const Use& use) {
  const auto keep = [&](const std::vector<HeldRun>& from, const std::vector<HeldRun>& to) {
    for (std::size_t i = 0; i < from.size(); ++i) use(from[i].held, to[i].held, to[i].size);
  };
  keep(before.common, now.common);
  for (std::size_t slice = std::max(before.slices.begin, now.slices.begin);
       slice < std::min(before.slices.end, now.slices.end); ++slice) {
    keep(before.own[slice - before.slices.begin], now.own[slice - now.slices.begin]);
  }
}

/// A stage whose shareable layers are cut into S slices. If a unit has G grains (the smallest
/// pieces that can be shared), slice j gets its grains from ceil(j G / S) to ceil((j + 1) G / S).
/// So the first slice always has a grain. The rows of images are divided in the same way. If a
/// layer is shared by rows, each peer that carries a slice has all weights of the layer. Everything
/// outside slices is common to all of these peers. The parameters of a part keep the order of the
/// stage's vector.
class SlicedStage {
 public:
  /// A stage without a layer to share has no slices, and all of it is common.
  SlicedStage(ModelPlan plan, std::size_t slices);

  const ModelPlan& plan() const { return plan_; }
  std::size_t slices() const { return parts_.size(); }
  std::size_t common_size() const { return size_of(common_); }
  std::size_t slice_size(std::size_t slice) const { return size_of(parts_[slice]); }
  /// The ranges of a slice in the stage's vector, ascending.
  const std::vector<Range>& ranges_of_slice(std::size_t slice) const { return parts_[slice]; }
  /// Returns the share that these slices have in the `grains` grains of a unit, or in the `grains`
  /// rows of an image.
  Range grains_of(std::size_t grains, const Range& slices) const;

  HeldParameters held(const Range& slices) const;

 private:
  static std::size_t size_of(const std::vector<Range>& ranges);

  ModelPlan plan_;
  std::vector<Range> common_;
  std::vector<std::vector<Range>> parts_;  ///< The ranges of the parameters of each slice.
};

}  // namespace gv
