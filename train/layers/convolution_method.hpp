// The methods of computing a convolution: the limits of each method, and the choice of the fastest.
#pragma once

#include <cstddef>
#include <optional>

#include "base/names.hpp"
#include "base/problems.hpp"
#include "train/layers/plan.hpp"

namespace gv {

inline constexpr auto convolution_names =
    names_of<ConvolutionMethod>({"auto", "direct", "winograd", "im2col", "fft"});

/// Returns the fastest method for a convolution, as measured on processors with AVX-512. The choice
/// depends only on the layer's shape and precision, so all peers make the same one. If this
/// processor or build does not support Winograd's method, oneDNN uses its direct method instead.
/// Without oneDNN, im2col replaces both.
ConvolutionMethod quickest_method(const LayerPlan& layer);

/// Returns why layer.spec.convolution, an explicitly chosen method, cannot compute this layer in
/// this build and on this processor. The `place` of the problem is empty.
std::optional<Problem> method_problem(const LayerPlan& layer);

/// How images are cut for method fft: into square tiles whose side suits the transform. Each tile
/// yields `outputs` rows and columns of outputs, and neighbours overlap by the kernel size minus
/// one.
struct FftTiles {
  std::size_t side = 0;  ///< Side of a tile; 0 if the transformed kernels would need more than 1
                         ///< GiB.
  std::size_t outputs = 0;
  std::size_t rows = 0;  ///< Number of tiles in a column of tiles.
  std::size_t columns = 0;
};
/// Returns the tiles that need the fewest multiplications.
FftTiles fft_tiles(const LayerPlan& layer);

}  // namespace gv
