// The built-in tasks: Gaussian blobs, or targets that are linear, drawn from a seed, so that a run
// needs no files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "train/data_set.hpp"

namespace gv {

struct GeneratedSpec {
  std::size_t samples = 0;
  std::size_t features = 0;  ///< Numbers of a sample.
  std::size_t side = 0;      ///< Samples are images of side x side; 0: they are flat.
  std::size_t classes = 0;
  std::size_t blobs = 1;    ///< Number of blobs of each class, each with its own centre.
  std::size_t targets = 0;  ///< Numbers to predict for each sample, for generate_linear().
  /// Standard deviation of a sample around its class's centre, or of a target around its line.
  double noise = 1;
  std::uint64_t seed = 1;  ///< Determines the centres or weights, and the samples.
};

/// Samples from every blob in turn; the classes of the blobs alternate. The centres depend only on
/// the seed; the samples also depend on `stream`: 0 for training, 1 for testing. The centre of
/// images is the sum of a few waves across each channel, of magnitude 1, which windows and pools
/// can find.
DataSet generate_blobs(const GeneratedSpec& spec, std::uint64_t stream);

/// Normally distributed inputs x and targets W x + b + noise. Each row of W has length 1 and each
/// number of b is normal, so the best R2 that a model can have is 1 / (1 + noise^2). W and b depend
/// only on the seed.
DataSet generate_linear(const GeneratedSpec& spec, std::uint64_t stream);

}  // namespace gv
