// The settings that select a gradient compressor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "consensus/codec/codec.hpp"

namespace gv {

/// Settings of all compressors. By default, complete gradients are sent without compression.
struct CompressorOptions {
  Codec codec = Codec::identity;  ///< The codec in which values are sent.
  /// Number of values sent out of every 512: those of largest magnitude. 0 means all.
  std::size_t top_k_per_512 = 0;
  /// Momentum applied to gradients before values are chosen. It replaces the optimiser's momentum.
  double momentum = 0;
  /// Number of steps, from the first one on, over which the number of values sent falls to
  /// `top_k_per_512`.
  std::uint64_t warm_up_steps = 0;
  /// Rank of the factors in which a gradient's matrices are sent; 0 means that they are sent
  /// without factors.
  std::size_t rank = 0;
  /// True if gradients of dense layers may be sent as two factors each (see
  /// sufficient_factors.hpp).
  bool sufficient_factors = false;
  bool one_bit = false;  ///< True if each value is sent as one bit.
  /// Number of values sent out of every 512, drawn at random in each step; 0 means all.
  std::size_t random_k_per_512 = 0;
  bool ternary = false;  ///< True if each value is sent as -1, 0 or 1.

  /// Number of values out of every 512 to send in the sum that begins at `step`; 0 means all.
  std::size_t keep_at(std::uint64_t step) const;

  friend bool operator==(const CompressorOptions&, const CompressorOptions&) = default;
};

}  // namespace gv
