// One mini-batch: the samples that a model learns from in one step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gv {

/// Views of one mini-batch. Their owner (a sampler or a test set) outlives every use. A sample has
/// one label; a sequence has one at each position.
struct Batch {
  std::span<const float> inputs;         ///< (batch, channels, height, width), row-major.
  std::span<const std::int32_t> labels;  ///< (batch, predictions), classification; else empty.
  std::span<const float> targets;        ///< (batch, outputs), squared loss; empty otherwise.
  std::size_t size = 0;                  ///< Number of samples.
};

}  // namespace gv
