// Computes the rounds of a Feistel network.
#include "train/data/permutation.hpp"

#include <bit>

#include "base/check.hpp"
#include "base/rng.hpp"

namespace gv {

KeyedPermutation::KeyedPermutation(std::uint64_t size, std::uint64_t key) : size_(size) {
  check(size >= 1 && size <= std::uint64_t{1} << 62, "a permutation has a size that fits");
  const int bits = std::bit_width(size - 1);
  half_bits_ = bits < 2 ? 1 : (bits + 1) / 2;
  Rng draws(key);
  for (std::uint64_t& round : keys_) round = draws.next();
}

std::uint64_t KeyedPermutation::at(std::uint64_t place) const {
  check(place < size_, "a place in the order");
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = place >> half_bits_;
    std::uint64_t right = place & mask;
    for (const std::uint64_t key : keys_) {
      const std::uint64_t mixed = left ^ (hash_combine(key, right) & mask);
      left = right;
      right = mixed;
    }
    place = left << half_bits_ | right;
  } while (place >= size_);
  return place;
}

std::uint64_t KeyedPermutation::place_of(std::uint64_t number) const {
  check(number < size_, "a number in the order");
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  do {
    std::uint64_t left = number >> half_bits_;
    std::uint64_t right = number & mask;
    for (auto key = keys_.rbegin(); key != keys_.rend(); ++key) {
      const std::uint64_t before = right ^ (hash_combine(*key, left) & mask);
      right = left;
      left = before;
    }
    number = left << half_bits_ | right;
  } while (number >= size_);
  return number;
}

}  // namespace gv
