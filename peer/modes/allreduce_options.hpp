// Options of mode `allreduce`: how sums are made and how many samples each peer takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>

#include "consensus/allreduce/reduce_plan.hpp"
#include "consensus/compression/compressors.hpp"
#include "consensus/compression/outer_step.hpp"
#include "consensus/generation/agreement.hpp"
#include "consensus/message/effects.hpp"
#include "peer/modes/mean_end.hpp"

namespace gv {

/// How a swarm sums gradients or local steps.
struct AllReduceOptions {
  std::size_t state_elements = 0;  ///< Floats of parameters, optimiser state and outer-step state.
  LocalSteps local;
  /// A collective averages the peers' models instead of gradients, and ends with the common mean.
  bool averages_models = false;
  /// True if the run ends with that mean; false if another mode follows.
  bool ends_run = true;
  /// Set if the run ends with that mean and the replica's steps are not those of its version.
  std::optional<MeanEnd> end = {};
  /// If not 0, the common mean is measured and compared with this accuracy or R2.
  double target = 0;
  /// If true, there is no model: a collective is the weighted mean of one array from each peer,
  /// whose length is known once the program has given it.
  bool averages_arrays = false;
  /// If not 0, sums use `direct` if possible, and a peer is refused if it sends values with more
  /// than this many times the norm of ours.
  double norm_cap = 0;
  std::optional<ReduceAlgorithm> algorithm;  ///< Empty: the algorithm that is predicted to be the
                                             ///< fastest.
  CompressorOptions compression;
  GradientPlaces places;                  ///< For compressors that need them: see gradient_places.
  bool measures_noise = false;            ///< Estimate the gradient noise scale.
  std::size_t bucket_elements = 1 << 20;  ///< Gradients are summed in pieces of this size.
  /// Floats of one block on a lane.
  std::size_t segment_elements = block_bytes_usual / sizeof(float);
  bool is_leased = false;    ///< True if the samples of a sum are consecutive in an order that all
                             ///< peers share.
  std::uint32_t batch = 64;  ///< Samples of a step for each peer.
  std::uint32_t batch_max = 0;  ///< The most for the fastest peer; 0: `batch`, never more.
  std::uint32_t batch_min = 1;  ///< The fewest for the slowest peer.
  unsigned processors = 0;  ///< Processors of this host; 0: enough that sums never wait for one.
  Agreement::Options agreement;
  /// Memory of all data that are sent. Not owned; must outlive the mode and its messages.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();

  /// Returns the compressor for gradients of that many elements.
  std::unique_ptr<GradientCompressor> compressor(std::size_t elements) const {
    return make_compressor(compression, elements, places);
  }
};

}  // namespace gv
