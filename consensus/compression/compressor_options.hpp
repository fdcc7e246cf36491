// The settings that choose a gradient compressor.
#pragma once

#include <cstddef>
#include <cstdint>

#include "consensus/codec/codec.hpp"

namespace gv {

/// Settings of all compressors. By default gradients travel whole.
struct CompressorOptions {
  Codec codec = Codec::identity;  ///< How values travel.
  std::size_t top_k_per_512 = 0;  ///< Largest values of every 512 that travel; 0: all.
  /// Momentum of gradients before values are chosen, instead of the optimiser's.
  double momentum = 0;
  /// Steps over which the share that travels falls to `top_k_per_512`.
  std::uint64_t warm_up_steps = 0;
  std::size_t rank = 0;  ///< Matrices of gradients travel as factors of this rank; 0: whole.
  bool sufficient_factors = false;  ///< Gradients of dense layers may travel so.
  bool one_bit = false;             ///< Values travel in one bit each.

  /// Values of every 512 that travel in the sum that begins at `step`; 0: all.
  std::size_t keep_at(std::uint64_t step) const;

  friend bool operator==(const CompressorOptions&, const CompressorOptions&) = default;
};

}  // namespace gv
