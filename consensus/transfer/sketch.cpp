// Draws the random signs of a sketch and computes norms and distances from sketches.
#include "consensus/transfer/sketch.hpp"

#include <array>
#include <cmath>
#include <cstddef>

namespace gv {
namespace {

constexpr std::size_t directions = std::tuple_size_v<SketchValues>;

/// Random bits for an index (Splitmix64). The output depends on every bit of the seed and the
/// index.
std::uint64_t draw(std::uint64_t seed, std::uint64_t index) {
  std::uint64_t bits = seed + (index + 1) * 0x9e3779b97f4a7c15ULL;
  bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9ULL;
  bits = (bits ^ bits >> 27) * 0x94d049bb133111ebULL;
  return bits ^ bits >> 31;
}

}  // namespace

SketchValues sketch_of(std::span<const float> model, std::uint64_t seed) {
  std::array<double, directions> sums{};
  for (std::size_t i = 0; i < model.size(); ++i) {
    const std::uint64_t bits = draw(seed, i);
    const auto value = static_cast<double>(model[i]);
    sums[bits % directions] += (bits >> 32 & 1) != 0 ? value : -value;
  }
  SketchValues sketch{};
  for (std::size_t i = 0; i < directions; ++i) sketch[i] = static_cast<float>(sums[i]);
  return sketch;
}

double norm_of(const SketchValues& sketch) { return distance_between(sketch, SketchValues{}); }

double distance_between(const SketchValues& a, const SketchValues& b) {
  double squares = 0;
  for (std::size_t i = 0; i < directions; ++i) {
    const double difference = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    squares += difference * difference;
  }
  return std::sqrt(squares);
}

}  // namespace gv
