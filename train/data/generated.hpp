// Built-in tasks that need no files: Gaussian blobs and linear targets, drawn from a seed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "train/data_set.hpp"

namespace gv {

struct GeneratedSpec {
  std::size_t samples = 0;
  std::size_t features = 0;  ///< Number of input values in a sample.
  std::size_t side = 0;      ///< Samples are images of side x side, or flat if this is 0.
  std::size_t classes = 0;
  std::size_t blobs = 1;    ///< Number of blobs of each class, each with its own centre.
  std::size_t targets = 0;  ///< Numbers to predict for each sample, for generate_linear().
  /// Standard deviation of a sample around its blob's centre, or of a target around its exact
  /// value.
  double noise = 1;
  std::uint64_t seed = 1;  ///< Determines the centres or weights, and the samples.
};

/// Draws samples from every blob in turn; consecutive blobs belong to different classes. The
/// centres depend only on the seed; the samples also depend on `stream`: 0 for training, 1 for
/// testing. For images, each channel of a centre is a sum of a few waves of magnitude 1, so that
/// convolutions and pooling can detect it.
DataSet generate_blobs(const GeneratedSpec& spec, std::uint64_t stream);

/// Draws normally distributed inputs x and makes targets W x + b + noise. The noise has the
/// standard deviation spec.noise. Each row of W has length 1, and each element of b is normal. So
/// the best R2 that a model can reach is 1 / (1 + spec.noise^2). W and b depend only on the seed.
DataSet generate_linear(const GeneratedSpec& spec, std::uint64_t stream);

}  // namespace gv
