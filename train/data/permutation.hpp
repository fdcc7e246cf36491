// A random order of numbers that is computed and not stored.
#pragma once

#include <array>
#include <cstdint>

namespace gv {

/// The numbers below `size` in an order that depends on the key. A Feistel network of six rounds
/// permutes the numbers below a power of four that is at least `size`. It is applied again until
/// the result is below `size`, fewer than four times on average (Black and Rogaway 2002, cycle
/// walking).
class KeyedPermutation {
 public:
  /// `size`: 1 to 2^62.
  KeyedPermutation(std::uint64_t size, std::uint64_t key);

  std::uint64_t size() const { return size_; }
  /// Returns the number at that place in the order. It is below size().
  std::uint64_t at(std::uint64_t place) const;
  /// Returns the place of that number in the order: the inverse of at(). The number must be below
  /// size().
  std::uint64_t place_of(std::uint64_t number) const;

 private:
  std::uint64_t size_;
  int half_bits_ = 1;
  std::array<std::uint64_t, 6> keys_{};
};

}  // namespace gv
