// Options of mode `allreduce`: how sums are made and how many samples each peer takes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>
#include <optional>
#include <vector>

#include "consensus/allreduce/reduce_plan.hpp"
#include "consensus/codec/value_codec.hpp"
#include "consensus/compression/outer_step.hpp"
#include "consensus/compression/power_sgd.hpp"
#include "consensus/compression/sufficient_factors.hpp"
#include "consensus/generation/agreement.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// How a swarm sums gradients or local steps.
struct AllReduceOptions {
  std::size_t state_elements = 0;  ///< Parameters, and the state of optimiser and outer step.
  LocalSteps local;
  std::optional<ReduceAlgorithm> algorithm;  ///< Empty: the one predicted to be the fastest.
  ValueCodec codec = ValueCodec::identity;   ///< How values travel.
  std::size_t top_k_per_512 = 0;             ///< Largest values of every 512 that travel; 0 = all.
  /// Momentum of gradients before values are chosen, instead of the optimiser's.
  double momentum = 0;
  FactorShape factors;              ///< If it has a rank, matrices of gradients travel as factors.
  bool sufficient_factors = false;  ///< Gradients of dense layers may travel so.
  std::vector<DensePlace> dense;    ///< Those dense layers: see dense_places().
  /// Steps over which the share that travels falls to `top_k_per_512`.
  std::uint64_t warm_up_steps = 0;
  std::size_t bucket_elements = 1 << 20;  ///< Gradients are summed in pieces of this size.
  /// Floats of one block on a lane.
  std::size_t segment_elements = block_bytes_usual / sizeof(float);
  std::uint32_t batch = 64;     ///< Samples of a step for each peer.
  std::uint32_t batch_max = 0;  ///< At most, for the fastest peer; 0 = batch, never more.
  unsigned processors = 0;  ///< Processors of this host; 0: enough that sums never wait for one.
  Agreement::Options agreement;
  /// Memory of everything that is sent. Not owned; it outlives the mode and its messages.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();

  /// Values of the longest sum, for a gradient of `elements`.
  std::size_t summed(std::size_t elements) const {
    return factors.rank > 0 ? factors.largest() : elements;
  }
  /// Values of every 512 that travel in the collective that begins at `step`.
  std::size_t keep_at(std::uint64_t step) const;
};

}  // namespace gv
