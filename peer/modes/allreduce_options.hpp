// Options of mode `allreduce`: how peers sum, and how many samples each of them takes.
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
  std::size_t state_elements = 0;  ///< The number of floats in the parameters, the optimiser's
                                   ///< state and the outer step's state.
  LocalSteps local;
  /// True if a collective averages the peers' models instead of gradients, and every peer adopts
  /// the mean.
  bool averages_models = false;
  /// Used only if models are averaged: true if the run ends with the common mean, false if another
  /// mode follows.
  bool ends_run = true;
  /// The replica's step and note at the end of the run. Set if the run ends with the common mean,
  /// and the replica's step differs from the step in the mean's version.
  std::optional<MeanEnd> end = {};
  /// If not 0, the accuracy or R2 of the common mean is measured and compared with this target.
  double target = 0;
  /// True if there is no model: a collective is the weighted mean of one array from each peer. The
  /// array's length is unknown until the program passes the array.
  bool averages_arrays = false;
  /// If not 0, sums use the algorithm `direct` if possible. A peer is then refused if the norm of
  /// its values is more than this many times the norm of ours.
  double norm_cap = 0;
  /// If empty, the algorithm with the shortest predicted time is used.
  std::optional<ReduceAlgorithm> algorithm;
  CompressorOptions compression;
  /// Where the matrices lie in a gradient; see gradient_places. Used only by compressors that treat
  /// matrices specially.
  GradientPlaces places;
  bool measures_noise = false;  ///< True if the gradient noise scale is estimated.
  /// The number of floats in each separately summed piece of a gradient.
  std::size_t bucket_elements = 1 << 20;
  /// The number of floats in one block on a lane.
  std::size_t segment_elements = block_bytes_usual / sizeof(float);
  /// True if a sum's samples are consecutive in an order that all peers share.
  bool is_leased = false;
  std::uint32_t batch = 64;  ///< The number of samples that each peer takes in a step.
  /// The largest batch, for the fastest peer; 0: never more than `batch`.
  std::uint32_t batch_max = 0;
  std::uint32_t batch_min = 1;  ///< The smallest batch, for the slowest peer.
  /// The number of processors of this host; 0 assumes that no sum waits for a processor.
  unsigned processors = 0;
  Agreement::Options agreement;
  /// Allocates all data that we send. Not owned; must outlive the mode and its messages.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();

  /// Returns the compressor for gradients with this many elements.
  std::unique_ptr<GradientCompressor> compressor(std::size_t elements) const {
    return make_compressor(compression, elements, places);
  }
};

}  // namespace gv
