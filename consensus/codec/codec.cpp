// The table of codecs, and the functions that work with any of them.
#include "consensus/codec/codec.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "base/halves.hpp"
#include "base/magnitude.hpp"
#include "consensus/codec/kept_values.hpp"
#include "consensus/codec/qsgd.hpp"
#include "consensus/codec/sign.hpp"

namespace gv {
namespace {

static_assert(std::endian::native == std::endian::little,
              "payloads are written as they lie in memory");

/// The number k of values that the codec keeps. It is at least 1 if there are elements, because the
/// fraction is above 0.
std::size_t kept_of(const Codec& codec, std::size_t elements) {
  const double share = std::ceil(codec.fraction * static_cast<double>(elements));
  return std::min(static_cast<std::size_t>(share), elements);
}

constexpr CodecTraits contractive(double delta) { return {.omega = 1 - delta, .delta = delta}; }

constexpr CodecTraits lossless{.lossless = true, .unbiased = true, .linear = true, .delta = 1};

CodecTraits qsgd_traits(unsigned levels, std::size_t elements) {
  const double s = levels;
  const double others = static_cast<double>(std::min(elements, qsgd_bucket) - 1);
  return {.unbiased = true, .omega = (std::sqrt(1 + others / (s * s)) - 1) / 2};
}

/// The fraction of the values that the codec keeps.
double kept_part(const Codec& codec, std::size_t elements) {
  return static_cast<double>(kept_of(codec, elements)) / static_cast<double>(elements);
}

/// The functions and properties of one codec. All functions receive at least one value, and bytes
/// of the right size.
struct CodecRow {
  std::string_view name;
  std::size_t width;  ///< Bytes for each value; 0 if the codec does not write values one by one.
  float largest;      ///< The largest magnitude that stays finite when written.
  bool summable;      ///< See CodecTraits::summable.
  CodecTraits (*traits)(const Codec&, std::size_t elements);
  std::size_t (*size)(const Codec&, std::size_t elements);
  void (*encode)(const Codec&, std::span<const float>, Rng&, std::span<std::byte>);
  bool (*decode)(const Codec&, std::span<const std::byte>, std::span<float>);
};

using Values = std::span<const float>;
using Bytes = std::span<const std::byte>;

constexpr float any = std::numeric_limits<float>::max();

template <std::size_t width>
std::size_t each_size(const Codec&, std::size_t elements) {
  return width * elements;
}

void encode_fixed(const Codec& codec, Values values, Rng&, std::span<std::byte> out) {
  encode_each(codec, values, out);
}

bool decode_fixed(const Codec& codec, Bytes bytes, std::span<float> out) {
  decode_each(codec, bytes, out);
  return is_finite(out);
}

/// Indexed by CodecKind.
constexpr std::array<CodecRow, codec_kinds.size()> rows = {{
    {"identity", 4, any, true, [](const Codec&, std::size_t) { return lossless; }, each_size<4>,
     encode_fixed, decode_fixed},
    {"fp16", 2, 65504, true, [](const Codec&, std::size_t) { return contractive(1 - 0x1p-22); },
     each_size<2>, encode_fixed, decode_fixed},
    {"bf16", 2, 0x1.fep127f, true,
     [](const Codec&, std::size_t) { return contractive(1 - 0x1p-16); }, each_size<2>, encode_fixed,
     decode_fixed},
    {"qsgd", 0, any, true, [](const Codec& c, std::size_t d) { return qsgd_traits(c.levels, d); },
     [](const Codec& c, std::size_t d) { return qsgd_size(c.levels, d); },
     [](const Codec& c, Values values, Rng& rng, std::span<std::byte> out) {
       encode_qsgd(c.levels, c.damped, values, rng, out);
     },
     [](const Codec& c, Bytes bytes, std::span<float> out) {
       return decode_qsgd(c.levels, bytes, out);
     }},
    {"terngrad", 0, any, true, [](const Codec&, std::size_t d) { return qsgd_traits(1, d); },
     [](const Codec&, std::size_t d) { return qsgd_size(1, d); },
     [](const Codec& c, Values values, Rng& rng, std::span<std::byte> out) {
       encode_qsgd(1, c.damped, values, rng, out);
     },
     [](const Codec&, Bytes bytes, std::span<float> out) { return decode_qsgd(1, bytes, out); }},
    {"sign", 0, any, false,
     [](const Codec&, std::size_t d) {
       return contractive(1 / static_cast<double>(std::min(d, sign_bucket)));
     },
     [](const Codec&, std::size_t d) { return sign_size(d); },
     [](const Codec&, Values values, Rng&, std::span<std::byte> out) { encode_sign(values, out); },
     [](const Codec&, Bytes bytes, std::span<float> out) { return decode_sign(bytes, out); }},
    {"top_k", 0, any, false,
     [](const Codec& c, std::size_t d) {
       const double kept = kept_part(c, d);
       return kept == 1 ? lossless : contractive(kept);
     },
     [](const Codec& c, std::size_t d) { return top_k_size(d, kept_of(c, d)); },
     [](const Codec& c, Values values, Rng& rng, std::span<std::byte> out) {
       encode_top_k(values, kept_of(c, values.size()), rng, out);
     },
     [](const Codec& c, Bytes bytes, std::span<float> out) {
       return decode_top_k(bytes, kept_of(c, out.size()), out);
     }},
    {"random_k", 0, any, false,
     [](const Codec& c, std::size_t d) {
       const double kept = kept_part(c, d);
       if (kept == 1) return lossless;
       return CodecTraits{.unbiased = true, .linear = true, .omega = 1 / kept - 1};
     },
     [](const Codec& c, std::size_t d) { return random_k_size(kept_of(c, d)); },
     [](const Codec& c, Values values, Rng& rng, std::span<std::byte> out) {
       encode_random_k(values, kept_of(c, values.size()), c.damped, rng, out);
     },
     [](const Codec& c, Bytes bytes, std::span<float> out) {
       return decode_random_k(bytes, kept_of(c, out.size()), out);
     }},
}};

const CodecRow& row_of(CodecKind kind) { return rows[static_cast<std::size_t>(kind)]; }

/// Returns the row of a codec, after checking that its parameters are valid.
const CodecRow& sound_row(const Codec& codec) {
  check(problems_of(codec).empty(), "a codec has sound parameters");
  return row_of(codec.kind);
}

}  // namespace

std::string_view to_string(CodecKind kind) {
  return static_cast<std::size_t>(kind) < rows.size() ? row_of(kind).name : "unknown";
}

Problems problems_of(const Codec& codec) {
  Problems problems;
  if (std::ranges::find(codec_kinds, codec.kind) == codec_kinds.end()) {
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

CodecTraits traits_of(const Codec& codec, std::size_t elements) {
  const std::size_t d = std::max<std::size_t>(elements, 1);
  CodecTraits traits = sound_row(codec).traits(codec, d);
  if (codec.damped && traits.unbiased && !traits.lossless) {
    traits.delta = 1 / (1 + traits.omega);
    traits.omega = 1 - traits.delta;
    traits.unbiased = false;
  }
  traits.summable = row_of(codec.kind).summable;
  traits.bits = 8 * static_cast<double>(encoded_size(codec, d)) / static_cast<double>(d);
  return traits;
}

double usual_delta(const Codec& codec, std::size_t elements) {
  Codec damped = codec;
  damped.damped = true;
  const CodecTraits traits = traits_of(damped, elements);
  // These codecs keep the same fraction of any vector: linear codecs choose values at random, and
  // rounding to 16-bit floats loses almost nothing.
  if (traits.lossless || traits.linear || bytes_per_element(codec) > 0) return traits.delta;
  constexpr std::size_t vectors = 16;  // Enough vectors for an error of about a hundredth.
  Rng rng(1);
  std::vector<float> x(elements);
  std::vector<float> y(elements);
  std::vector<std::byte> bytes(encoded_size(damped, elements));
  double squares = 0;
  double lost = 0;
  for (std::size_t i = 0; i < vectors; ++i) {
    for (float& value : x) value = static_cast<float>(rng.normal());
    encode(damped, x, rng, bytes);
    check(decode(damped, bytes, y), "a codec reads what it has written");
    for (std::size_t k = 0; k < elements; ++k) {
      squares += static_cast<double>(x[k]) * x[k];
      lost += std::pow(static_cast<double>(x[k]) - y[k], 2);
    }
  }
  return 1 - lost / squares;
}

float largest_writable(const Codec& codec) { return row_of(codec.kind).largest; }

bool is_writable(const Codec& codec, std::span<const float> values) {
  return largest_magnitude(values) <= largest_writable(codec);
}

std::size_t encoded_size(const Codec& codec, std::size_t elements) {
  const CodecRow& row = sound_row(codec);
  return elements == 0 ? 0 : row.size(codec, elements);
}

void encode(const Codec& codec, std::span<const float> values, Rng& rng, std::span<std::byte> out) {
  check(out.size() == encoded_size(codec, values.size()), "encoded values have their exact size");
  if (!values.empty()) row_of(codec.kind).encode(codec, values, rng, out);
}

bool decode(const Codec& codec, std::span<const std::byte> bytes, std::span<float> out) {
  if (bytes.size() != encoded_size(codec, out.size())) return false;
  return out.empty() || row_of(codec.kind).decode(codec, bytes, out);
}

std::size_t bytes_per_element(const Codec& codec) { return row_of(codec.kind).width; }

void encode_each(const Codec& codec, std::span<const float> values, std::span<std::byte> out) {
  const std::size_t width = bytes_per_element(codec);
  check(width > 0 && out.size() == values.size() * width, "an encoded model has its exact size");
  if (codec.kind == CodecKind::fp16) return encode_fp16(values, out);
  if (codec.kind == CodecKind::bf16) return encode_bf16(values, out);
  if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
}

void decode_each(const Codec& codec, std::span<const std::byte> bytes, std::span<float> out) {
  const std::size_t width = bytes_per_element(codec);
  check(width > 0 && bytes.size() == out.size() * width, "an encoded model has its exact size");
  if (codec.kind == CodecKind::fp16) return decode_fp16(bytes, out);
  if (codec.kind == CodecKind::bf16) return decode_bf16(bytes, out);
  if (!out.empty()) std::memcpy(out.data(), bytes.data(), bytes.size());
}

std::span<const float> decoded(const Codec& codec, std::span<const std::byte> bytes,
                               std::span<float> scratch) {
  const std::size_t count = bytes.size() / bytes_per_element(codec);
  const bool aligned = reinterpret_cast<std::uintptr_t>(bytes.data()) % alignof(float) == 0;
  if (codec.kind == CodecKind::identity && aligned) {
    return {reinterpret_cast<const float*>(bytes.data()), count};
  }
  const std::span<float> values = scratch.first(count);
  decode_each(codec, bytes, values);
  return values;
}

}  // namespace gv
