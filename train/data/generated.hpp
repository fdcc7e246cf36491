// The built-in task: Gaussian blobs drawn from a seed, so that a run needs no files.
#pragma once

#include <cstddef>
#include <cstdint>

#include "train/data_set.hpp"

namespace gv {

struct GeneratedSpec {
  std::size_t samples = 0;
  std::size_t features = 0;
  std::size_t classes = 0;
  double noise = 1;        ///< Standard deviation of a sample around its class's centre.
  std::uint64_t seed = 1;  ///< Fixes the centres and the samples.
};

/// Samples of every class in turn. The centres depend on the seed alone, the samples on the seed
/// and `stream`: 0 for training, 1 for testing.
DataSet generate_blobs(const GeneratedSpec& spec, std::uint64_t stream);

}  // namespace gv
