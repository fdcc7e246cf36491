// Computes the three permutations of a block order.
#include "train/data/block_order.hpp"

#include <algorithm>

#include "base/check.hpp"
#include "base/rng.hpp"

namespace gv {
namespace {

std::uint64_t blocks_of(std::uint64_t size, std::uint64_t block) {
  check(size >= 1 && block >= 1, "an order has numbers and blocks");
  return (size - 1) / block + 1;
}

}  // namespace

BlockOrder::BlockOrder(std::uint64_t size, std::uint64_t block, std::uint64_t key)
    : size_(size),
      block_(std::min(block, size)),
      blocks_(blocks_of(size, block_), Rng(key).fork("blocks").next()),
      last_size_(size - (blocks_.size() - 1) * block_),
      last_turn_(blocks_.place_of(blocks_.size() - 1)),
      window_key_(Rng(key).fork("windows").next()),
      block_key_(Rng(key).fork("inside blocks").next()) {}

BlockOrder::Window BlockOrder::window_of(std::uint64_t place) const {
  const std::uint64_t first = block_ / 2;
  if (place < first) return {.number = 0, .begin = 0, .end = first};
  const std::uint64_t number = (place - first) / block_ + 1;
  const std::uint64_t begin = first + (number - 1) * block_;
  return {.number = number, .begin = begin, .end = std::min(begin + block_, size_)};
}

BlockOrder::Spot BlockOrder::spot_of(std::uint64_t place) const {
  // Only the last block may be short. It can be anywhere in the random order of blocks, and all
  // blocks before and after it are full.
  const std::uint64_t last_begin = last_turn_ * block_;
  if (place < last_begin) return {place / block_, place % block_};
  const std::uint64_t since = place - last_begin;
  if (since < last_size_) return {last_turn_, since};
  const std::uint64_t after = since - last_size_;
  return {last_turn_ + 1 + after / block_, after % block_};
}

std::uint64_t BlockOrder::at(std::uint64_t place) const {
  check(place < size_, "a place in the order");
  const Window window = window_of(place);
  const KeyedPermutation mix(window.end - window.begin, hash_combine(window_key_, window.number));
  const Spot spot = spot_of(window.begin + mix.at(place - window.begin));
  const std::uint64_t block = blocks_.at(spot.turn);
  const bool is_last = spot.turn == last_turn_;
  const KeyedPermutation inside(is_last ? last_size_ : block_, hash_combine(block_key_, block));
  return block * block_ + inside.at(spot.offset);
}

std::vector<std::uint64_t> BlockOrder::blocks_near(std::uint64_t place) const {
  check(place < size_, "a place in the order");
  const Window window = window_of(place);
  const std::uint64_t end = spot_of(window.end - 1).turn + 1;
  std::vector<std::uint64_t> blocks;
  for (std::uint64_t turn = spot_of(window.begin).turn; turn < end; ++turn) {
    blocks.push_back(blocks_.at(turn));
  }
  return blocks;
}

}  // namespace gv
