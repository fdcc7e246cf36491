// The settings that choose a gradient compressor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "consensus/codec/codec.hpp"

namespace gv {

/// Settings of all compressors. By default gradients are sent whole.
struct CompressorOptions {
  Codec codec = Codec::identity;  ///< The codec in which values are sent.
  /// How many of every 512 values are sent, the largest ones; 0 means all.
  std::size_t top_k_per_512 = 0;
  /// Momentum that is applied to gradients before values are chosen. It replaces the optimiser's.
  double momentum = 0;
  /// Steps during which the sent fraction falls to `top_k_per_512`.
  std::uint64_t warm_up_steps = 0;
  /// Matrices of a gradient are sent as factors of this rank; 0 means whole.
  std::size_t rank = 0;
  /// Gradients of dense layers may be sent as their two factors (see sufficient_factors.hpp).
  bool sufficient_factors = false;
  bool one_bit = false;  ///< Values are sent as one bit each.
  /// How many of every 512 values are sent, drawn in each step; 0 means all.
  std::size_t random_k_per_512 = 0;
  bool ternary = false;  ///< Values are sent as -1, 0 or 1 each.

  /// How many of every 512 values are sent in the sum that begins at `step`; 0 means all.
  std::size_t keep_at(std::uint64_t step) const;

  friend bool operator==(const CompressorOptions&, const CompressorOptions&) = default;
};

}  // namespace gv
