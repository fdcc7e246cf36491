// A mini-batch: the samples that a model learns from in one step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gv {

/// Views of one mini-batch. The owner of the numbers (a sampler or a test set) must outlive every
/// use. An ordinary sample has one label; a sequence has one at each position.
struct Batch {
  std::span<const float> inputs;         ///< (batch, channels, height, width), row-major.
  std::span<const std::int32_t> labels;  ///< (batch, predictions) for classification; else empty.
  std::span<const float> targets;        ///< (batch, outputs) for squared loss; else empty.
  std::size_t size = 0;                  ///< Number of samples.
};

}  // namespace gv
