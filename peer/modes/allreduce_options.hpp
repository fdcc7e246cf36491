// What lockstep is told: how sums are made, who takes how many samples.
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

/// How a swarm steps in lockstep.
struct AllReduceOptions {
  std::size_t state_elements = 0;  ///< Parameters and what optimiser and outer step keep.
  LocalSteps local;
  std::optional<ReduceAlgorithm> algorithm;  ///< Empty: the one predicted to be the fastest.
  ValueCodec codec = ValueCodec::identity;   ///< How values travel.
  std::size_t top_k_per_512 = 0;  ///< Values of every 512 that travel, the largest; 0 = all.
  double momentum = 0;            ///< Of gradients before they are chosen, in place of a later one.
  FactorShape factors;  ///< Matrices of gradients travel as factors of its rank, if it has one.
  bool sufficient_factors = false;  ///< Gradients of dense layers may travel as those.
  std::vector<DensePlace> dense;    ///< Which they then are: see dense_places().
  std::uint64_t warm_up_steps = 0;  ///< Over so many steps more of them travel, fewer and fewer.
  std::size_t bucket_elements = 1 << 20;  ///< Gradients are summed in pieces of this size.
  /// Of one block on a lane.
  std::size_t segment_elements = block_bytes_usual / sizeof(float);
  std::uint32_t batch = 64;     ///< Samples of a step for each who takes part.
  std::uint32_t batch_max = 0;  ///< Of the fastest of them at most; 0 = batch, never more.
  unsigned processors = 0;      ///< Of this host; 0: so many that sums never wait for them.
  Agreement::Options agreement;
  /// Where what is sent lives; not owned, outlives the mode and whatever it sends.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();

  /// Values of the longest sum, of a gradient with so many.
  std::size_t summed(std::size_t elements) const {
    return factors.rank > 0 ? factors.largest() : elements;
  }
  /// Values of every 512 that travel in the operation that begins there.
  std::size_t keep_at(std::uint64_t step) const;
};

}  // namespace gv
