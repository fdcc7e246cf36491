// QSGD beside the codecs of the pair exchange.
#include "consensus/ring/value_codec.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "consensus/base/check.hpp"
#include "consensus/base/magnitude.hpp"
#include "consensus/exchange/codec.hpp"

namespace gv {
namespace {

bool is_qsgd(ValueCodec codec) { return codec == ValueCodec::qsgd8 || codec == ValueCodec::qsgd4; }

/// The codec of the pair exchange with the same number; not for QSGD.
Codec plain(ValueCodec codec) { return static_cast<Codec>(codec); }

/// A sign and a level, as one number: a sign bit above `bits` - 1 bits of level.
struct Code {
  unsigned bits;

  unsigned sign() const { return 1u << (bits - 1); }
  unsigned levels() const { return sign() - 1; }
};

Code code_of(ValueCodec codec) { return {codec == ValueCodec::qsgd8 ? 8u : 4u}; }

std::size_t code_bytes(Code code, std::size_t count) { return (count * code.bits + 7) / 8; }

void encode_bucket(Code code, std::span<const float> values, Rng& rng, std::byte* out) {
  const float largest = largest_magnitude(values);
  std::memcpy(out, &largest, sizeof largest);
  std::byte* const codes = out + sizeof largest;
  std::memset(codes, 0, code_bytes(code, values.size()));
  if (!std::isfinite(largest)) return;
  const double scale = largest > 0 ? code.levels() / static_cast<double>(largest) : 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    // The scale is rounded, which can bring the largest just above the last level.
    const double level = std::min<double>(std::abs(values[i]) * scale, code.levels());
    const double below = std::floor(level);
    unsigned written = static_cast<unsigned>(below) + (rng.chance(level - below) ? 1 : 0);
    if (written != 0 && values[i] < 0) written |= code.sign();
    const std::size_t bit = i * code.bits;
    codes[bit / 8] |= static_cast<std::byte>(written << bit % 8);
  }
}

bool decode_bucket(Code code, const std::byte* bytes, std::span<float> out) {
  float largest = 0;
  std::memcpy(&largest, bytes, sizeof largest);
  if (!std::isfinite(largest) || largest < 0) return false;
  const std::byte* const codes = bytes + sizeof largest;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t bit = i * code.bits;
    const unsigned written = std::to_integer<unsigned>(codes[bit / 8]) >> bit % 8;
    const double level = written & code.levels();
    const double value = largest * level / code.levels();
    out[i] = static_cast<float>(written & code.sign() ? -value : value);
  }
  return true;
}

}  // namespace

std::string_view to_string(ValueCodec codec) {
  switch (codec) {
    case ValueCodec::identity:
    case ValueCodec::fp16:
    case ValueCodec::bf16:
      return to_string(plain(codec));
    case ValueCodec::qsgd8:
      return "qsgd8";
    case ValueCodec::qsgd4:
      return "qsgd4";
  }
  return "unknown";
}

std::optional<ValueCodec> value_codec_from_name(std::string_view name) {
  for (const ValueCodec codec : {ValueCodec::identity, ValueCodec::fp16, ValueCodec::bf16,
                                 ValueCodec::qsgd8, ValueCodec::qsgd4}) {
    if (name == to_string(codec)) return codec;
  }
  return std::nullopt;
}

bool is_writable(ValueCodec codec, std::span<const float> values) {
  float largest = std::numeric_limits<float>::max();
  if (codec == ValueCodec::fp16) largest = 65504;
  if (codec == ValueCodec::bf16) largest = 0x1.fep127f;
  return largest_magnitude(values) <= largest;
}

std::size_t encoded_size(ValueCodec codec, std::size_t count) {
  if (!is_qsgd(codec)) return count * bytes_per_element(plain(codec));
  const std::size_t buckets = (count + qsgd_bucket - 1) / qsgd_bucket;
  return buckets * sizeof(float) + code_bytes(code_of(codec), count);
}

void encode(ValueCodec codec, std::span<const float> values, Rng& rng, std::span<std::byte> out) {
  check(out.size() == encoded_size(codec, values.size()), "encoded values have their exact size");
  if (values.empty()) return;
  if (!is_qsgd(codec)) return encode(plain(codec), values, out);
  const std::size_t bucket_bytes = encoded_size(codec, qsgd_bucket);
  for (std::size_t at = 0, bucket = 0; at < values.size(); at += qsgd_bucket, ++bucket) {
    const std::size_t count = std::min(qsgd_bucket, values.size() - at);
    encode_bucket(code_of(codec), values.subspan(at, count), rng,
                  out.data() + bucket * bucket_bytes);
  }
}

bool decode(ValueCodec codec, std::span<const std::byte> bytes, std::span<float> out) {
  if (bytes.size() != encoded_size(codec, out.size())) return false;
  if (out.empty()) return true;
  if (!is_qsgd(codec)) {
    decode(plain(codec), bytes, out);
    return is_finite(out);
  }
  const std::size_t bucket_bytes = encoded_size(codec, qsgd_bucket);
  for (std::size_t at = 0, bucket = 0; at < out.size(); at += qsgd_bucket, ++bucket) {
    const std::size_t count = std::min(qsgd_bucket, out.size() - at);
    if (!decode_bucket(code_of(codec), bytes.data() + bucket * bucket_bytes,
                       out.subspan(at, count))) {
      return false;
    }
  }
  return true;
}

}  // namespace gv
