// Times the methods of computing convolutions side by side.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "train/spec.hpp"

namespace gv {

/// A convolutional layer, and the shape of its input.
struct ConvolutionShape {
  SampleShape in{};
  LayerSpec layer;
};

/// Writes "64x28x28:64k3p1": channels x height x width of the input, then output channels and
/// kernel size. Appends s with the stride if it is not 1, and p with the padding if it is not 0.
std::string to_string(const ConvolutionShape& shape);
/// Parses the text of to_string(). Returns nullopt if the text is malformed or does not describe a
/// layer.
std::optional<ConvolutionShape> convolution_from_text(const std::string& text);
/// Shapes from the configs that come with the program, and some with larger kernels.
std::vector<std::string> usual_convolutions();

struct BenchConvolutionOptions {
  std::vector<ConvolutionShape> shapes;
  std::size_t batch = 64;      ///< Number of samples in a pass.
  std::size_t repeats = 0;     ///< Passes of each method; 0: 3 to 1000 passes in about a second.
  std::filesystem::path json;  ///< File for the rows and all times. Empty means none.
};

/// Alternates between the methods that can compute a shape. Prints a row for each shape with the
/// milliseconds of a forward and a backward pass. A pass includes the conversion from and to the
/// plain image layout; in a network, neighbouring layers may make that unnecessary for oneDNN's
/// methods. A layer with up to 3 input channels counts as a model's first layer, which needs no
/// gradient of its inputs. Returns 0, or 1 with a message if the file cannot be written.
int bench_convolution(const BenchConvolutionOptions& options);

}  // namespace gv
