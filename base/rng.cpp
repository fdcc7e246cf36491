// Implements xoshiro256** and a few distributions based on it.
#include "base/rng.hpp"

#include <cmath>

#include "base/check.hpp"
#include "base/portable_math.hpp"

namespace gv {
namespace {

__extension__ using Product = unsigned __int128;

std::uint64_t splitmix(std::uint64_t& state) { return avalanche(state += 0x9e3779b97f4a7c15ULL); }

}  // namespace

std::uint64_t stable_hash(std::string_view text) {
  std::uint64_t hash = 0xcbf29ce484222325ULL;
  for (const char c : text) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3ULL;
  }
  return avalanche(hash);
}

Rng::Rng(std::uint64_t seed) : seed_(seed) {
  for (auto& word : state_) word = splitmix(seed);
}

Rng Rng::fork(std::string_view purpose) const { return fork(stable_hash(purpose)); }

Rng Rng::fork(std::uint64_t purpose) const { return Rng(hash_combine(seed_, purpose)); }

std::uint64_t Rng::below(std::uint64_t bound) {
  check(bound > 0, "a bounded draw needs a positive bound");
  const std::uint64_t threshold = (0 - bound) % bound;
  while (true) {
    const Product product = static_cast<Product>(next()) * bound;
    if (static_cast<std::uint64_t>(product) >= threshold) {
      return static_cast<std::uint64_t>(product >> 64);
    }
  }
}

double Rng::normal() {
  while (true) {
    const double x = 2 * uniform() - 1;
    const double y = 2 * uniform() - 1;
    const double s = x * x + y * y;
    if (s > 0 && s < 1) return x * std::sqrt(-2 * natural_logarithm(s) / s);
  }
}

double Rng::gamma(double shape) {
  check(shape > 0, "a gamma draw needs a positive shape");
  if (shape < 1) return gamma(shape + 1) * std::pow(1 - uniform(), 1 / shape);
  const double d = shape - 1.0 / 3;
  const double c = 1 / std::sqrt(9 * d);
  while (true) {
    const double x = normal();
    const double v = std::pow(1 + c * x, 3);
    if (v > 0 && std::log(1 - uniform()) < 0.5 * x * x + d - d * v + d * std::log(v)) return d * v;
  }
}

}  // namespace gv
