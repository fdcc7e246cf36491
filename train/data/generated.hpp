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
  std::uint64_t seed = 1;  ///< Determines the centres and the samples.
};

/// Samples of every class in turn. The centres depend only on the seed; the samples also depend on
/// `stream`: 0 for training, 1 for testing.
DataSet generate_blobs(const GeneratedSpec& spec, std::uint64_t stream);

}  // namespace gv
