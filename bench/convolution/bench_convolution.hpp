// Times the methods of convolutions side by side.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/spec.hpp"

namespace gv {

/// A convolution and the samples that it works on.
struct ConvolutionShape {
  SampleShape in{};
  LayerSpec layer;
};

/// Writes "64x28x28:64k3p1": channels x height x width of the input, channels of the output, and
/// kernel; then s with a stride other than 1, and p with a padding other than 0.
std::string to_string(const ConvolutionShape& shape);
/// Reads such a text. Returns nullopt if the text is malformed or does not describe a layer.
std::optional<ConvolutionShape> convolution_from_text(const std::string& text);
/// Shapes of the configs that come with the program, and some with larger kernels.
std::vector<std::string> usual_convolutions();

struct BenchConvolutionOptions {
  std::vector<ConvolutionShape> shapes;
  std::size_t batch = 64;      ///< Samples in a pass.
  std::size_t repeats = 0;     ///< Passes of each method; 0: 3 to 1000, in about a second.
  std::filesystem::path json;  ///< File for the rows with all times. Empty means none.
};

/// Runs the methods that can compute a shape in turn, and prints a row for each shape with the
/// milliseconds of a forward and a backward pass. A pass includes the conversion from and to the
/// plain order of images; in a network, neighbouring layers may make it unnecessary for the methods
/// of oneDNN. A layer with up to 3 input channels counts as a model's first one, which has no
/// gradient of its inputs. Returns 0, or 1 with a message if the file cannot be written.
int bench_convolution(const BenchConvolutionOptions& options);

}  // namespace gv
