// The order of samples in files contains every sample once, and needs few blocks at a time.
#include "train/data/block_order.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "train/data/permutation.hpp"

namespace gv {
namespace {

std::vector<std::uint64_t> numbers_of(const BlockOrder& order) {
  std::vector<std::uint64_t> numbers;
  for (std::uint64_t place = 0; place < order.size(); ++place) numbers.push_back(order.at(place));
  return numbers;
}

}  // namespace

TEST_CASE("the place of a number in a keyed permutation is where the number is", "[unit]") {
  for (const std::uint64_t size : {1, 2, 3, 4, 5, 16, 17, 1000, 4097}) {
    const KeyedPermutation order(size, 7);
    for (std::uint64_t place = 0; place < size; ++place) {
      REQUIRE(order.place_of(order.at(place)) == place);
    }
  }
}

TEST_CASE("an order of blocks has every number once, whatever the sizes", "[unit]") {
  for (const std::uint64_t size : {1, 2, 3, 7, 16, 17, 31, 32, 33, 1000}) {
    for (const std::uint64_t block : {1, 2, 3, 4, 7, 16, 64, 2000}) {
      for (std::uint64_t key = 0; key < 5; ++key) {
        INFO(size << " numbers in blocks of " << block << ", key " << key);
        std::vector<std::uint64_t> numbers = numbers_of(BlockOrder(size, block, key));
        std::ranges::sort(numbers);
        for (std::uint64_t i = 0; i < size; ++i) REQUIRE(numbers[i] == i);
      }
    }
  }
}

TEST_CASE("an order of blocks is a function of its key", "[unit]") {
  const std::vector<std::uint64_t> numbers = numbers_of(BlockOrder(1000, 64, 3));
  CHECK(numbers == numbers_of(BlockOrder(1000, 64, 3)));
  CHECK(numbers != numbers_of(BlockOrder(1000, 64, 4)));
  // The numbers do not depend on the order in which places are asked for.
  const BlockOrder order(1000, 64, 3);
  for (std::uint64_t place = 1000; place-- > 0;) REQUIRE(order.at(place) == numbers[place]);
}

TEST_CASE("as many places as a block has samples need at most four blocks", "[unit]") {
  constexpr std::uint64_t block = 64;
  // The second size has a short last block. The third size has fewer than four blocks.
  for (const std::uint64_t size : {64 * 40, 64 * 40 + 5, 64 * 2 + 63}) {
    for (std::uint64_t key = 0; key < 20; ++key) {
      const std::vector<std::uint64_t> numbers = numbers_of(BlockOrder(size, block, key));
      for (std::uint64_t begin = 0; begin + block <= size; ++begin) {
        std::set<std::uint64_t> blocks;
        for (std::uint64_t i = 0; i < block; ++i) blocks.insert(numbers[begin + i] / block);
        REQUIRE(blocks.size() <= (size % block == 0 ? 3 : 4));
      }
    }
  }
}

TEST_CASE("the blocks near a place are those that its window needs", "[unit]") {
  constexpr std::uint64_t block = 16;
  for (const std::uint64_t size : {16 * 20, 16 * 20 + 3, 5}) {
    for (std::uint64_t key = 0; key < 20; ++key) {
      const BlockOrder order(size, block, key);
      for (std::uint64_t place = 0; place < size; ++place) {
        const std::vector<std::uint64_t> near = order.blocks_near(place);
        REQUIRE(near.size() <= 3);
        REQUIRE(std::ranges::count(near, order.at(place) / block) == 1);
      }
    }
  }
}

TEST_CASE("an order of blocks mixes neighbours and leaves no number where it was", "[unit]") {
  // Over random keys, a number is equally likely at each of 24 places. Chi-squared with 23 degrees
  // of freedom exceeds 49.7 with a probability of 0.001. The keys are fixed, so the result is, too.
  std::array<int, 24> counts{};
  for (std::uint64_t key = 0; key < 2400; ++key) ++counts[BlockOrder(24, 4, key).at(5)];
  double chi_squared = 0;
  for (const int count : counts) chi_squared += (count - 100.0) * (count - 100.0) / 100;
  CHECK(chi_squared < 49.7);
  // This window takes half of its samples from each of its two blocks.
  const std::vector<std::uint64_t> numbers = numbers_of(BlockOrder(4096, 256, 1));
  const std::uint64_t first = numbers[128] / 256;
  const auto of_first = std::count_if(numbers.begin() + 128, numbers.begin() + 384,
                                      [&](std::uint64_t n) { return n / 256 == first; });
  CHECK(of_first == 128);
}

}  // namespace gv
