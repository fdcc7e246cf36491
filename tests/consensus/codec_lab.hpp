// Lossy codecs of all kinds, and vectors to encode with them.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "consensus/codec/codec.hpp"

namespace gv {

using Floats = std::vector<float>;
using Bytes = std::vector<std::byte>;

/// Codecs of every kind, with extreme parameters and some in between.
inline const std::vector<Codec> codecs = {
    {.kind = CodecKind::identity},
    {.kind = CodecKind::fp16},
    {.kind = CodecKind::bf16},
    {.kind = CodecKind::qsgd, .levels = 127},
    {.kind = CodecKind::qsgd, .levels = 7},
    {.kind = CodecKind::qsgd, .levels = 5},
    {.kind = CodecKind::qsgd, .levels = 3},
    {.kind = CodecKind::qsgd, .levels = 1},
    {.kind = CodecKind::terngrad},
    {.kind = CodecKind::sign},
    {.kind = CodecKind::top_k, .fraction = 0.01},
    {.kind = CodecKind::top_k, .fraction = 0.3},
    {.kind = CodecKind::top_k, .fraction = 0.9},
    {.kind = CodecKind::top_k, .fraction = 1},
    {.kind = CodecKind::random_k, .fraction = 0.01},
    {.kind = CodecKind::random_k, .fraction = 0.3},
    {.kind = CodecKind::random_k, .fraction = 1},
};

inline std::string name_of(const Codec& codec) {
  return std::string(to_string(codec.kind)) + ' ' + std::to_string(codec.fraction) + ' ' +
         std::to_string(codec.levels);
}

inline Bytes encoded(const Codec& codec, const Floats& values, Rng& rng) {
  Bytes bytes(encoded_size(codec, values.size()));
  encode(codec, values, rng, bytes);
  return bytes;
}

/// Encodes and decodes the values. Returns an empty vector if the bytes are refused.
inline Floats passed_through(const Codec& codec, const Floats& values, Rng& rng) {
  Floats result(values.size(), std::nanf(""));  // The decoder must overwrite every value.
  if (!decode(codec, encoded(codec, values, rng), result)) return {};
  return result;
}

inline Floats normals(std::size_t n, Rng& rng) {
  Floats values(n);
  for (float& value : values) value = static_cast<float>(rng.normal());
  return values;
}

inline double squares(const Floats& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return sum;
}

inline double squared_distance(const Floats& a, const Floats& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return sum;
}

/// A random vector of one of several types: normal, with zeros, with ties, with one large value, or
/// of any magnitude.
inline Floats any_vector(std::size_t n, Rng& rng) {
  Floats values = normals(n, rng);
  const std::uint64_t sort = rng.below(6);
  if (sort == 0) return Floats(n);
  if (sort == 1) {
    for (float& value : values) value = rng.chance(0.5) ? 1.0f : -1.0f;
  }
  if (sort == 2) {
    for (float& value : values) value = rng.chance(0.9) ? 0 : value;
  }
  if (sort == 3) values[rng.below(n)] *= 1000;
  if (sort == 4) {
    for (float& value : values) value *= std::ldexp(1.0f, static_cast<int>(rng.below(8)));
  }
  return values;
}

}  // namespace gv
