// The methods of computing a convolution: what each can do, and which is the fastest.
#pragma once

#include <cstddef>
#include <optional>

#include "base/names.hpp"
#include "base/problems.hpp"
#include "train/layers/plan.hpp"

namespace gv {

inline constexpr auto convolution_names =
    names_of<ConvolutionMethod>({"auto", "direct", "winograd", "im2col", "fft"});

/// The fastest method for a convolution, as measured on processors with AVX-512: a function of its
/// shape and precision alone, so that all peers make the same choice. This processor or build may
/// not support it; oneDNN then uses its direct method in place of Winograd's, and without oneDNN
/// both are im2col.
ConvolutionMethod quickest_method(const LayerPlan& layer);

/// Why layer.spec.convolution, an explicitly chosen method, cannot compute this layer here. The
/// place is empty.
std::optional<Problem> method_problem(const LayerPlan& layer);

/// How images are cut for method fft: square tiles whose side suits the transform. Each has
/// `outputs` rows and columns of outputs, and neighbours overlap by the kernel size less one.
struct FftTiles {
  std::size_t side = 0;  ///< 0: the transformed kernels would need more than 1 GiB.
  std::size_t outputs = 0;
  std::size_t rows = 0;  ///< Number of tiles in a column of tiles.
  std::size_t columns = 0;
};
/// The tiles that need the fewest multiplications.
FftTiles fft_tiles(const LayerPlan& layer);

}  // namespace gv
