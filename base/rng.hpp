// Seeded random numbers that are the same with every compiler and standard library.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace gv {

/// A 64-bit hash of `text` (FNV-1a with a final avalanche), stable across machines and releases.
/// Not suitable for security.
std::uint64_t stable_hash(std::string_view text);

/// Makes every bit of the result depend on every bit of `x` (the finaliser of splitmix64).
constexpr std::uint64_t avalanche(std::uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9ULL;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Mixes `value` into `hash`. The order of calls matters. Meant for hashes over several fields.
constexpr std::uint64_t hash_combine(std::uint64_t hash, std::uint64_t value) {
  return avalanche(hash * 0x9e3779b97f4a7c15ULL + avalanche(value + 0x9e3779b97f4a7c15ULL));
}

/// xoshiro256** (Blackman and Vigna 2018), seeded through splitmix64. A copy continues the same
/// stream. The distributions are our own, because those of the standard library differ between
/// implementations.
class Rng {
 public:
  explicit Rng(std::uint64_t seed);

  /// Returns a generator whose stream depends only on this one's seed and on `purpose`, not on how
  /// many numbers were already drawn. Each component has its own generator, so that components do
  /// not affect each other's numbers.
  Rng fork(std::string_view purpose) const;
  Rng fork(std::uint64_t purpose) const;

  std::uint64_t next() {
    const std::uint64_t result = std::rotl(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = std::rotl(state_[3], 45);
    return result;
  }

  /// A uniform number in [0, bound), without bias (Lemire 2019). `bound` must be positive.
  std::uint64_t below(std::uint64_t bound);

  /// A uniform number in [0, 1) with 53 random bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

  /// A standard normal number (Marsaglia's polar method).
  double normal();

  /// A gamma-distributed number with the given shape (> 0) and scale 1 (Marsaglia and Tsang 2000).
  double gamma(double shape);

  /// Returns true with the given probability.
  bool chance(double probability) { return uniform() < probability; }

  friend bool operator==(const Rng&, const Rng&) = default;
  /// Adds the generator's state to a StateHash.
  void add_to(auto& hash) const { hash.add(seed_, state_); }

  /// Shuffles with Fisher-Yates; every order is equally likely.
  template <class T>
  void shuffle(std::span<T> items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
  }

 private:
  std::uint64_t seed_;
  std::array<std::uint64_t, 4> state_;
};

}  // namespace gv
