// Writes top_k as a sparse vector with exactly k values, and random_k as a seed and the values at
// the indices that the seed determines.
#include "consensus/codec/kept_values.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "base/magnitude.hpp"
#include "base/number_at.hpp"
#include "consensus/codec/sparse_vector.hpp"

namespace gv {
namespace {

/// True if k indices cost more bytes than the zeros they save.
bool is_written_dense(std::size_t elements, std::size_t k) {
  constexpr Codec exact = Codec::identity;
  return encoded_stream_size(false, elements, k, exact) >
         encoded_stream_size(true, elements, elements, exact);
}

/// Indices of the k largest magnitudes, ascending. On ties the smaller index wins. NaN ranks above
/// all numbers, so that it is sent and then refused.
std::vector<std::size_t> places_of_largest(std::span<const float> values, std::size_t k) {
  std::vector<std::uint32_t> magnitudes(values.size());
  std::ranges::transform(values, magnitudes.begin(), magnitude_bits);
  const auto kth = magnitudes.begin() + static_cast<std::ptrdiff_t>(k) - 1;
  std::ranges::nth_element(magnitudes, kth, std::greater<>());
  const std::uint32_t least = *kth;
  // No magnitude before `kth` is below `least`. The remaining places go to the first values whose
  // magnitude is `least`.
  auto of_the_least = std::count(magnitudes.begin(), kth + 1, least);
  std::vector<std::size_t> places;
  places.reserve(k);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t own = magnitude_bits(values[i]);
    if (own > least || (own == least && of_the_least-- > 0)) places.push_back(i);
  }
  return places;
}

/// Calls `take` with k of the indices below `elements`, in ascending order. Every set of k is
/// equally likely (selection sampling: Knuth volume 2, 3.4.2, algorithm S).
template <class Take>
void draw_places(std::uint64_t seed, std::size_t elements, std::size_t k, Take&& take) {
  Rng rng(seed);
  for (std::size_t i = 0, left = k; left > 0; ++i) {
    if (rng.below(elements - i) >= left) continue;
    take(i);
    --left;
  }
}

}  // namespace

std::size_t top_k_size(std::size_t elements, std::size_t k) {
  const bool is_dense = is_written_dense(elements, k);
  return encoded_stream_size(is_dense, elements, is_dense ? elements : k, Codec::identity);
}

void encode_top_k(std::span<const float> values, std::size_t k, Rng& rng,
                  std::span<std::byte> out) {
  const std::vector<std::size_t> places = places_of_largest(values, k);
  std::vector<float> kept;
  kept.reserve(k);
  for (const std::size_t place : places) kept.push_back(values[place]);
  const SparseVector stream =
      compact(SparseVector::sparse(values.size(), places, std::move(kept)), Codec::identity);
  std::ranges::copy(encode(stream, Codec::identity, rng), out.begin());
}

bool decode_top_k(std::span<const std::byte> bytes, std::size_t k, std::span<float> out) {
  const std::optional<SparseVector> stream = decode(bytes, out.size());
  // The number of bytes and the number of values together determine the form.
  const std::size_t values = is_written_dense(out.size(), k) ? out.size() : k;
  if (!stream || stream->values().size() != values) return false;
  std::ranges::fill(out, 0.0f);
  stream->add_to(out);
  return true;
}

std::size_t random_k_size(std::size_t k) { return sizeof(std::uint64_t) + k * sizeof(float); }

void encode_random_k(std::span<const float> values, std::size_t k, bool damped, Rng& rng,
                     std::span<std::byte> bytes) {
  std::byte* out = bytes.data();
  const std::uint64_t seed = rng.next();
  std::memcpy(out, &seed, sizeof seed);
  out += sizeof seed;
  const double scale = damped ? 1 : static_cast<double>(values.size()) / static_cast<double>(k);
  // A value that is not finite may be at an index that is not drawn. The receiver must still notice
  // it, so in that case every value sent is NaN.
  const double sound = is_finite(values) ? 1 : std::numeric_limits<double>::quiet_NaN();
  draw_places(seed, values.size(), k, [&](std::size_t place) {
    const auto value = static_cast<float>(values[place] * scale * sound);
    std::memcpy(out, &value, sizeof value);
    out += sizeof value;
  });
}

bool decode_random_k(std::span<const std::byte> encoded, std::size_t k, std::span<float> out) {
  const std::byte* bytes = encoded.data();
  const auto seed = number_at<std::uint64_t>(bytes);
  bytes += sizeof seed;
  std::ranges::fill(out, 0.0f);
  draw_places(seed, out.size(), k, [&](std::size_t place) {
    out[place] = number_at<float>(bytes);
    bytes += sizeof(float);
  });
  return is_finite(out);
}

}  // namespace gv
