// Scaled sign: writes each bucket as a float and one bit for each value.
#include "consensus/codec/sign.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "base/number_at.hpp"

namespace gv {
namespace {

std::size_t sign_bytes(std::size_t count) { return sizeof(float) + (count + 7) / 8; }

}  // namespace

std::size_t sign_size(std::size_t elements) {
  const std::size_t rest = elements % sign_bucket;
  return elements / sign_bucket * sign_bytes(sign_bucket) + (rest > 0 ? sign_bytes(rest) : 0);
}

void encode_sign(std::span<const float> values, std::span<std::byte> bytes) {
  std::byte* out = bytes.data();
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

bool decode_sign(std::span<const std::byte> encoded, std::span<float> out) {
  const std::byte* bytes = encoded.data();
  for (std::size_t at = 0; at < out.size(); at += sign_bucket) {
    const std::span bucket = out.subspan(at, std::min(sign_bucket, out.size() - at));
    const auto scale = number_at<float>(bytes);
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

}  // namespace gv
