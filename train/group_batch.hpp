// Passes the batches of the first stage from the first member of a group to all members.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/range.hpp"
#include "train/layers/sliced_stage.hpp"
#include "train/learner/group_place.hpp"

namespace gv {

/// The inputs of a batch and its truth: the labels or targets, as floats. If members begin with
/// strips of images, each gets only the rows that it reads; otherwise each gets the whole batch.
class GroupBatch {
 public:
  /// `stage` must be the first stage. A batch has `batch` samples and `truth` labels or targets.
  GroupBatch(const SlicedStage& stage, std::size_t batch, std::size_t truth);

  /// Describes the first sum in a pass through the stage. Members receive the batch as the result
  /// of this sum.
  GroupSum sum() const;
  /// Writes the first member's summand to `out`. `whole` is that member's batch: the inputs,
  /// followed by the truth.
  void give(std::span<const float> whole, const GroupPlace& place, std::span<float> out) const;
  /// Copies the inputs in the sum to their places in the whole batch `inputs`. Inputs that the
  /// member does not read stay unchanged. Returns the labels or targets.
  std::span<const float> take(std::span<const float> sum, const GroupPlace& place,
                              std::span<float> inputs) const;

 private:
  std::size_t truth_;
  std::size_t planes_;  ///< Planes of all images of a batch: one for each image and channel.
  std::size_t rows_;    ///< Rows of an image.
  std::size_t width_;   ///< Values in a row of a plane.
  std::vector<Range> rows_read_;  ///< Rows that each slice reads; empty if members need whole
                                  ///< images.
};

}  // namespace gv
