// How the first member of a group gives the batches of the first stage to all members.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/range.hpp"
#include "train/layers/sliced_stage.hpp"
#include "train/learner/group_place.hpp"

namespace gv {

/// The inputs and the truth of a batch. Members that begin with strips of images get only the rows
/// that they read, and all others the whole batch.
class GroupBatch {
 public:
  /// `stage` is the first one. A batch has `batch` samples and `truth` floats of truth.
  GroupBatch(const SlicedStage& stage, std::size_t batch, std::size_t truth);

  /// The first sum of a pass through the stage.
  GroupSum sum() const;
  /// Writes the summand of the first member: `whole` is its batch, the inputs and then the truth.
  void give(std::span<const float> whole, const GroupPlace& place, std::span<float> out) const;
  /// Writes the inputs from the sum, at their places in the whole batch. What the member does not
  /// read stays as it is. Returns the truth.
  std::span<const float> take(std::span<const float> sum, const GroupPlace& place,
                              std::span<float> inputs) const;

 private:
  std::size_t truth_;
  std::size_t planes_;  ///< Planes of all images of a batch: one for each image and channel.
  std::size_t rows_;    ///< Rows of an image.
  std::size_t width_;   ///< Values in a row of a plane.
  std::vector<Range> rows_read_;  ///< By slice; empty if members need whole images.
};

}  // namespace gv
