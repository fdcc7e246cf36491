// A random order of samples in files that keeps reads long.
#pragma once

#include <cstdint>
#include <vector>

#include "train/data/permutation.hpp"

namespace gv {

/// The numbers below `size` in an order that depends on `key`. The order is computed, not stored.
/// The numbers are cut into blocks of `block` numbers, of which the last may be shorter.
/// Consecutive places of the order take their numbers from only a few blocks:
///
///   1. The blocks follow each other in a random order.
///   2. The numbers of each block are shuffled.
///   3. The places are cut into windows as long as a block, each from the middle of one block to
///      the middle of the next, and the numbers of each window are shuffled.
///
/// So the numbers of neighbouring blocks are mixed. A window takes its numbers from two blocks, or
/// from three if one of them is the shorter block.
class BlockOrder {
 public:
  /// `size`: 1 to 2^62. `block`: at least 1. Computing is fastest if `block` is a power of two.
  BlockOrder(std::uint64_t size, std::uint64_t block, std::uint64_t key);

  std::uint64_t size() const { return size_; }
  /// Returns the number at that place in the order. It is below size().
  std::uint64_t at(std::uint64_t place) const;
  /// Returns the blocks that hold the numbers of the window around `place`, in the random order of
  /// the blocks.
  std::vector<std::uint64_t> blocks_near(std::uint64_t place) const;

 private:
  /// The position of a number before windows are shuffled: the place of its block in the order of
  /// blocks, and the place of the number within that block.
  struct Spot {
    std::uint64_t turn = 0;
    std::uint64_t offset = 0;
  };
  /// Places from `begin` up to, but not including, `end`.
  struct Window {
    std::uint64_t number = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };

  Window window_of(std::uint64_t place) const;
  Spot spot_of(std::uint64_t place) const;

  std::uint64_t size_;
  std::uint64_t block_;
  KeyedPermutation blocks_;
  std::uint64_t last_size_;  ///< Numbers in the last block.
  std::uint64_t last_turn_;  ///< The place of the last block in the order of blocks.
  std::uint64_t window_key_;
  std::uint64_t block_key_;
};

}  // namespace gv
