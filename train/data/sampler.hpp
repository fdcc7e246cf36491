// Chooses the samples of each batch, and gathers batches ahead of time.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "train/batch.hpp"
#include "train/data/block_order.hpp"
#include "train/data/block_reader.hpp"
#include "train/data/permutation.hpp"
#include "train/data_set.hpp"

namespace gv {

/// Draws batches of any size from a shard, which it shuffles in every epoch. A position counts
/// samples over all epochs: epoch e begins at e * shard size. A batch that does not fit into the
/// remainder of an epoch begins the next epoch. The remaining samples are then skipped; they are
/// different ones in every epoch. The orders are a pure function of (seed, peer, epoch). So a batch
/// is a pure function of (seed, peer, position, size), and can be requested at any position, in any
/// order. A batch larger than the shard is an epoch of its own and repeats samples.
///
/// With leased data, all peers share one order of all samples in each epoch, no samples are
/// skipped, and a batch may reach into the next epoch. Only leased data may be in files. BlockOrder
/// determines the order of samples in files, so that they are read in long pieces. Blocks that will
/// be needed next are read ahead of time. Results do not depend on when blocks are read.
class Sampler {
 public:
  /// `peer`: nullopt if data are leased. `aside` reads blocks of data in files ahead of time;
  /// without it, blocks are read when they are needed.
  Sampler(std::shared_ptr<const DataSet> shard, std::uint64_t seed,
          std::optional<std::uint64_t> peer, RunAside aside = {});

  /// Returns the next `size` samples (at least one) at or after `position`. The views stay valid
  /// during the next call of batch() or prefetch(), but not during the call after that. Throws
  /// DataError if samples in files cannot be read; a later call then tries again.
  Batch batch(std::uint64_t position, std::size_t size);

  /// The position after a batch of `size` samples that is requested at `position`. Returns
  /// `position` itself if `size` is 0.
  std::uint64_t after(std::uint64_t position, std::size_t size) const;

  /// The position after the first `count` batches of `size` samples. Gives the same result as
  /// `count` calls of after(), but without a loop.
  std::uint64_t after_batches(std::uint64_t count, std::size_t size) const;

  /// Gathers a batch in advance for batch(position, size). Does not change any result, and does not
  /// throw.
  void prefetch(std::uint64_t position, std::size_t size);

 private:
  struct Gathered {
    std::optional<std::uint64_t> begin;
    std::size_t size = 0;
    std::vector<float> inputs;
    std::vector<std::int32_t> labels;
    std::vector<float> targets;
  };

  /// Where the batch for `position` begins: at `position`, or at the start of the next epoch.
  std::uint64_t begin_of(std::uint64_t position, std::size_t size) const;
  Gathered& gather(std::uint64_t begin, std::size_t size);
  const std::vector<std::uint32_t>& order(std::uint64_t epoch);
  std::uint64_t sample_at(std::uint64_t begin, std::size_t number);
  std::uint64_t leased_sample(std::uint64_t position);
  BlockOrder block_order(std::uint64_t epoch) const;
  void expect_blocks_at(std::uint64_t position);

  std::shared_ptr<const DataSet> shard_;
  std::uint64_t seed_;
  std::optional<std::uint64_t> peer_;
  std::array<Gathered, 2> gathered_;
  std::size_t newest_ = 0;
  std::optional<std::uint64_t> epoch_;
  std::vector<std::uint32_t> order_;
  std::optional<KeyedPermutation> shared_order_;  ///< Order of the samples in epoch `epoch_`, for
                                                  ///< leased data in memory.
  std::optional<BlockOrder> file_order_;          ///< Order of the samples in epoch `epoch_`, for
                                                  ///< data in files.
  std::optional<BlockReader> reader_;             ///< Set if data are in files.
};

}  // namespace gv
