// Chooses the fastest method for a shape, and checks the limits of each method.
#include "train/layers/convolution_method.hpp"

#include <algorithm>
#include <limits>
#include <string>

#include "train/layers/fourier.hpp"
#include "train/layers/network.hpp"

namespace gv {
namespace {

/// The largest number of values in transformed kernels, which take 1 GiB in float.
constexpr std::size_t kernel_spectra_max = std::size_t{1} << 28;

bool fits_winograd(const LayerPlan& layer) {
  return layer.spec.kernel == 3 && layer.spec.stride == 1;
}

bool is_winograd_quick(const LayerPlan& layer) {
  const std::size_t channels = std::min(layer.in[0], layer.out[0]);
  const std::size_t rows = std::min(layer.in[1], layer.in[2]);
  return fits_winograd(layer) && ((channels >= 16 && rows >= 8) || (channels >= 64 && rows >= 4));
}

/// True if method fft is the fastest. The work of a direct convolution grows with the product of
/// the numbers of input and output channels. The work of the transforms grows with the sum of these
/// numbers.
bool is_fft_quick(const LayerPlan& layer) {
  const LayerSpec& spec = layer.spec;
  const std::size_t products = spec.kernel * spec.kernel * layer.in[0] * layer.out[0];
  return spec.kernel >= 5 && spec.stride == 1 && std::min(layer.out[1], layer.out[2]) >= 14 &&
         products >= 800 * (layer.in[0] + layer.out[0]) && fft_tiles(layer).side > 0;
}

std::size_t divided_up(std::size_t number, std::size_t by) { return (number + by - 1) / by; }

}  // namespace

ConvolutionMethod quickest_method(const LayerPlan& layer) {
  if (layer.precision == Precision::bf16) return ConvolutionMethod::direct;
  if (is_winograd_quick(layer)) return ConvolutionMethod::winograd;
  if (is_fft_quick(layer)) return ConvolutionMethod::fft;
  return ConvolutionMethod::direct;
}

std::optional<Problem> method_problem(const LayerPlan& layer) {
  const OnednnAbilities& has = onednn_abilities();
  const ConvolutionMethod method = layer.spec.convolution;
  const std::string name(convolution_names[method]);
  const std::string other = "use convolution = \"auto\"";
  if (layer.precision == Precision::bf16 && method != ConvolutionMethod::direct) {
    return Problem{{},
                   "method " + name + " has no products of bfloat16",
                   other + ", or precision = \"float32\""};
  }
  switch (method) {
    case ConvolutionMethod::direct:
      if (has.is_built_in) return std::nullopt;
      return Problem{{}, "this build has no oneDNN, which computes convolutions directly", other};
    case ConvolutionMethod::winograd:
      if (!fits_winograd(layer)) {
        return Problem{{}, "Winograd's method is for a kernel of 3 and a stride of 1", other};
      }
      if (has.winograd) return std::nullopt;
      return Problem{{}, "this processor or build has no code for Winograd's method", other};
    case ConvolutionMethod::fft:
      if (fft_tiles(layer).side > 0) return std::nullopt;
      return Problem{{}, "the kernels' spectra would take more than 1 GiB", other};
    case ConvolutionMethod::automatic:
    case ConvolutionMethod::im2col:
      return std::nullopt;
  }
  return std::nullopt;
}

FftTiles fft_tiles(const LayerPlan& layer) {
  const std::size_t kernel = layer.spec.kernel;
  const std::size_t stride = layer.spec.stride;
  const std::size_t longest = (std::max(layer.out[1], layer.out[2]) - 1) * stride + kernel;
  const std::size_t largest = Fourier<float>::side_for(longest);
  FftTiles best;
  std::size_t least = std::numeric_limits<std::size_t>::max();
  for (std::size_t side = Fourier<float>::side_for(kernel); side <= largest;
       side = Fourier<float>::side_for(side + 1)) {
    const std::size_t spectrum = Fourier<float>::frequencies(side);
    if (spectrum > kernel_spectra_max / (2 * layer.in[0] * layer.out[0])) break;
    FftTiles tiles{.side = side, .outputs = (side - kernel) / stride + 1};
    tiles.rows = divided_up(layer.out[1], tiles.outputs);
    tiles.columns = divided_up(layer.out[2], tiles.outputs);
    const std::size_t cost = tiles.rows * tiles.columns * spectrum;
    if (cost >= least) continue;
    least = cost;
    best = tiles;
  }
  return best;
}

}  // namespace gv
