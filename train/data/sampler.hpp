// Which samples make up which batch, and batches gathered ahead of time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "train/batch.hpp"
#include "train/data_set.hpp"

namespace gv {

/// Shuffles a shard anew every epoch and cuts it into whole batches; what is left over at the end
/// of an epoch's order is left out (other samples every epoch). The order is a pure function of
/// (seed, peer, epoch), so a batch can be asked for at any step, in any order. A shard smaller than
/// a batch repeats its samples.
class Sampler {
 public:
  Sampler(std::shared_ptr<const DataSet> shard, std::size_t batch, std::uint64_t seed,
          std::uint64_t peer);

  /// The batch of a step; the views stay valid until the next but one call of batch() or
  /// prefetch().
  Batch batch(std::uint64_t step);

  /// Gathers the batch of a step now, so that batch(step) finds it ready. Changes no result.
  void prefetch(std::uint64_t step);

  std::size_t batches_per_epoch() const;

 private:
  struct Gathered {
    std::optional<std::uint64_t> step;
    std::vector<float> inputs;
    std::vector<std::int32_t> labels;
    std::vector<float> targets;
  };

  Gathered& gather(std::uint64_t step);
  const std::vector<std::uint32_t>& order(std::uint64_t epoch);

  std::shared_ptr<const DataSet> shard_;
  std::size_t batch_;
  std::uint64_t seed_;
  std::uint64_t peer_;
  std::array<Gathered, 2> gathered_;
  std::size_t newest_ = 0;
  std::optional<std::uint64_t> epoch_;
  std::vector<std::uint32_t> order_;
};

}  // namespace gv
