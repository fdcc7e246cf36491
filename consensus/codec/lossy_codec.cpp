// Kinds by name, and the kinds that value_codec does not have: sign, top_k and random_k.
#include "consensus/codec/lossy_codec.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/magnitude.hpp"
#include "consensus/codec/sparse_vector.hpp"
#include "consensus/codec/value_codec.hpp"

namespace gv {
namespace {

constexpr std::size_t sign_bucket = 512;

/// The codec of value_codec.hpp with that name; the other kinds have none.
std::optional<ValueCodec> plain(LossyKind kind) {
  if (kind == LossyKind::identity) return ValueCodec::identity;
  if (kind == LossyKind::fp16) return ValueCodec::fp16;
  if (kind == LossyKind::bf16) return ValueCodec::bf16;
  return std::nullopt;
}

unsigned levels_of(const LossyCodec& codec) {
  return codec.kind == LossyKind::terngrad ? 1 : codec.levels;
}

/// k: at least one of at least one, because a share is above 0.
std::size_t kept_of(const LossyCodec& codec, std::size_t elements) {
  const double share = std::ceil(codec.fraction * static_cast<double>(elements));
  return std::min(static_cast<std::size_t>(share), elements);
}

// ---- sign: by bucket a float and a bit for each value ----

std::size_t sign_bytes(std::size_t count) { return sizeof(float) + (count + 7) / 8; }

std::size_t sign_size(std::size_t elements) {
  const std::size_t rest = elements % sign_bucket;
  return elements / sign_bucket * sign_bytes(sign_bucket) + (rest > 0 ? sign_bytes(rest) : 0);
}

void encode_sign(std::span<const float> values, std::byte* out) {
  for (std::size_t at = 0; at < values.size(); at += sign_bucket) {
    const std::span bucket = values.subspan(at, std::min(sign_bucket, values.size() - at));
    double sum = 0;
    for (const float value : bucket) sum += std::abs(value);
    const auto scale = static_cast<float>(sum / static_cast<double>(bucket.size()));
    std::memcpy(out, &scale, sizeof scale);
    std::byte* const bits = out + sizeof scale;
    std::memset(bits, 0, sign_bytes(bucket.size()) - sizeof scale);
    for (std::size_t i = 0; i < bucket.size(); ++i) {
      bits[i / 8] |= std::byte{bucket[i] < 0} << (i % 8);
    }
    out += sign_bytes(bucket.size());
  }
}

bool decode_sign(const std::byte* bytes, std::span<float> out) {
  for (std::size_t at = 0; at < out.size(); at += sign_bucket) {
    const std::span bucket = out.subspan(at, std::min(sign_bucket, out.size() - at));
    float scale = 0;
    std::memcpy(&scale, bytes, sizeof scale);
    if (!std::isfinite(scale) || scale < 0) return false;
    const std::array values = {scale, -scale};
    const std::byte* const bits = bytes + sizeof scale;
    for (std::size_t i = 0; i < bucket.size(); ++i) {
      bucket[i] = values[std::to_integer<std::size_t>(bits[i / 8] >> (i % 8)) % 2];
    }
    bytes += sign_bytes(bucket.size());
  }
  return true;
}

// ---- top_k: a stream with exactly k values ----

/// Whether k places cost more than the zeros they save.
bool is_written_dense(std::size_t elements, std::size_t k) {
  constexpr ValueCodec exact = ValueCodec::identity;
  return encoded_stream_size(false, elements, k, exact) >
         encoded_stream_size(true, elements, elements, exact);
}

std::size_t top_k_size(std::size_t elements, std::size_t k) {
  const bool is_dense = is_written_dense(elements, k);
  return encoded_stream_size(is_dense, elements, is_dense ? elements : k, ValueCodec::identity);
}

/// Orders floats by magnitude, not a number above all, so that it is taken and then refused.
std::uint32_t magnitude(float value) { return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu; }

/// The places of the k largest magnitudes, ascending; of equal ones the first.
std::vector<std::size_t> places_of_largest(std::span<const float> values, std::size_t k) {
  std::vector<std::uint32_t> magnitudes(values.size());
  std::ranges::transform(values, magnitudes.begin(), magnitude);
  const auto kth = magnitudes.begin() + static_cast<std::ptrdiff_t>(k) - 1;
  std::ranges::nth_element(magnitudes, kth, std::greater<>());
  const std::uint32_t least = *kth;
  // Those before it are at least as large; what they leave is for the first that equal it.
  auto of_the_least = std::count(magnitudes.begin(), kth + 1, least);
  std::vector<std::size_t> places;
  places.reserve(k);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const std::uint32_t own = magnitude(values[i]);
    if (own > least || (own == least && of_the_least-- > 0)) places.push_back(i);
  }
  return places;
}

void encode_top_k(std::span<const float> values, std::size_t k, Rng& rng,
                  std::span<std::byte> out) {
  const std::vector<std::size_t> places = places_of_largest(values, k);
  std::vector<float> kept;
  kept.reserve(k);
  for (const std::size_t place : places) kept.push_back(values[place]);
  const SparseVector stream =
      compact(SparseVector::sparse(values.size(), places, std::move(kept)), ValueCodec::identity);
  std::ranges::copy(encode(stream, ValueCodec::identity, rng), out.begin());
}

bool decode_top_k(std::span<const std::byte> bytes, std::size_t k, std::span<float> out) {
  const std::optional<SparseVector> stream = decode(bytes, out.size());
  // With the size of the bytes, the number of values settles the form too.
  const std::size_t values = is_written_dense(out.size(), k) ? out.size() : k;
  if (!stream || stream->values().size() != values) return false;
  std::ranges::fill(out, 0.0f);
  stream->add_to(out);
  return true;
}

// ---- random_k: a seed and the values at the places that it draws ----

/// Calls `take` with k places of `elements`, ascending, each set of k equally likely (selection
/// sampling: Knuth volume 2, 3.4.2, algorithm S).
template <class Take>
void draw_places(std::uint64_t seed, std::size_t elements, std::size_t k, Take&& take) {
  Rng rng(seed);
  for (std::size_t i = 0, left = k; left > 0; ++i) {
    if (rng.below(elements - i) >= left) continue;
    take(i);
    --left;
  }
}

void encode_random_k(std::span<const float> values, std::size_t k, Rng& rng, std::byte* out) {
  const std::uint64_t seed = rng.next();
  std::memcpy(out, &seed, sizeof seed);
  out += sizeof seed;
  const double scale = static_cast<double>(values.size()) / static_cast<double>(k);
  // What is not finite may stand at a place that is not drawn; then it has to be seen all the same.
  const double sound = is_finite(values) ? 1 : std::numeric_limits<double>::quiet_NaN();
  draw_places(seed, values.size(), k, [&](std::size_t place) {
    const auto value = static_cast<float>(values[place] * scale * sound);
    std::memcpy(out, &value, sizeof value);
    out += sizeof value;
  });
}

bool decode_random_k(const std::byte* bytes, std::size_t k, std::span<float> out) {
  std::uint64_t seed = 0;
  std::memcpy(&seed, bytes, sizeof seed);
  bytes += sizeof seed;
  std::ranges::fill(out, 0.0f);
  draw_places(seed, out.size(), k, [&](std::size_t place) {
    std::memcpy(&out[place], bytes, sizeof(float));
    bytes += sizeof(float);
  });
  return is_finite(out);
}

void check_sound(const LossyCodec& codec) {
  check(problems_of(codec).empty(), "a codec has sound parameters");
}

}  // namespace

std::string_view to_string(LossyKind kind) {
  switch (kind) {
    case LossyKind::identity:
      return "identity";
    case LossyKind::fp16:
      return "fp16";
    case LossyKind::bf16:
      return "bf16";
    case LossyKind::qsgd:
      return "qsgd";
    case LossyKind::terngrad:
      return "terngrad";
    case LossyKind::sign:
      return "sign";
    case LossyKind::top_k:
      return "top_k";
    case LossyKind::random_k:
      return "random_k";
  }
  return "unknown";
}

std::optional<LossyKind> lossy_kind_named(std::string_view name) {
  for (const LossyKind kind : lossy_kinds) {
    if (name == to_string(kind)) return kind;
  }
  return std::nullopt;
}

Problems problems_of(const LossyCodec& codec) {
  Problems problems;
  if (std::ranges::find(lossy_kinds, codec.kind) == lossy_kinds.end()) {
    problems.push_back({"kind", "there is no such codec", "take one of the named ones"});
  }
  if (!(codec.fraction > 0 && codec.fraction <= 1)) {
    problems.push_back({"fraction",
                        "is " + std::to_string(codec.fraction) + ", and a share of the values is " +
                            "above 0 and at most 1",
                        "take 0.01 to keep a hundredth"});
  }
  if (codec.levels < 1 || codec.levels > qsgd_levels_max) {
    problems.push_back({"levels",
                        "are " + std::to_string(codec.levels) + ", and 1 to " +
                            std::to_string(qsgd_levels_max) + " fit a byte with their sign",
                        "take 127, or 7 for half the bytes"});
  }
  return problems;
}

LossyTraits traits_of(const LossyCodec& codec, std::size_t elements) {
  check_sound(codec);
  const std::size_t d = std::max<std::size_t>(elements, 1);
  const LossyTraits lossless{.lossless = true, .unbiased = true, .linear = true, .delta = 1};
  const auto contractive = [](double delta) {
    return LossyTraits{.omega = 1 - delta, .delta = delta};
  };
  switch (codec.kind) {
    case LossyKind::identity:
      return lossless;
    case LossyKind::fp16:
      return contractive(1 - 0x1p-22);
    case LossyKind::bf16:
      return contractive(1 - 0x1p-16);
    case LossyKind::qsgd:
    case LossyKind::terngrad: {
      const double s = levels_of(codec);
      const double others = static_cast<double>(std::min(d, qsgd_bucket) - 1);
      return {.unbiased = true, .omega = (std::sqrt(1 + others / (s * s)) - 1) / 2};
    }
    case LossyKind::sign:
      return contractive(1 / static_cast<double>(std::min(d, sign_bucket)));
    case LossyKind::top_k:
    case LossyKind::random_k:
      break;
  }
  const double kept = static_cast<double>(kept_of(codec, d)) / static_cast<double>(d);
  if (kept == 1) return lossless;
  if (codec.kind == LossyKind::top_k) return contractive(kept);
  return {.unbiased = true, .linear = true, .omega = 1 / kept - 1};
}

std::size_t encoded_size(const LossyCodec& codec, std::size_t elements) {
  check_sound(codec);
  if (elements == 0) return 0;
  if (const auto value_codec = plain(codec.kind)) return encoded_size(*value_codec, elements);
  if (codec.kind == LossyKind::sign) return sign_size(elements);
  if (codec.kind == LossyKind::top_k) return top_k_size(elements, kept_of(codec, elements));
  if (codec.kind == LossyKind::random_k) {
    return sizeof(std::uint64_t) + kept_of(codec, elements) * sizeof(float);
  }
  return qsgd_size(levels_of(codec), elements);
}

void encode(const LossyCodec& codec, std::span<const float> values, Rng& rng,
            std::span<std::byte> out) {
  check(out.size() == encoded_size(codec, values.size()), "encoded values have their exact size");
  if (values.empty()) return;
  if (const auto value_codec = plain(codec.kind)) return encode(*value_codec, values, rng, out);
  const std::size_t k = kept_of(codec, values.size());
  if (codec.kind == LossyKind::sign) return encode_sign(values, out.data());
  if (codec.kind == LossyKind::top_k) return encode_top_k(values, k, rng, out);
  if (codec.kind == LossyKind::random_k) return encode_random_k(values, k, rng, out.data());
  encode_qsgd(levels_of(codec), values, rng, out);
}

bool decode(const LossyCodec& codec, std::span<const std::byte> bytes, std::span<float> out) {
  if (bytes.size() != encoded_size(codec, out.size())) return false;
  if (out.empty()) return true;
  if (const auto value_codec = plain(codec.kind)) return decode(*value_codec, bytes, out);
  const std::size_t k = kept_of(codec, out.size());
  if (codec.kind == LossyKind::sign) return decode_sign(bytes.data(), out);
  if (codec.kind == LossyKind::top_k) return decode_top_k(bytes, k, out);
  if (codec.kind == LossyKind::random_k) return decode_random_k(bytes.data(), k, out);
  return decode_qsgd(levels_of(codec), bytes, out);
}

}  // namespace gv
