// QSGD: each bucket has a scale, and each value a sign and a level drawn at random.
#include "consensus/codec/qsgd.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/check.hpp"
#include "base/magnitude.hpp"
#include "base/number_at.hpp"

namespace gv {
namespace {

/// Represents a sign and a level as one number. The sign bit is above the bits of the level.
struct Code {
  unsigned levels;

  unsigned bits() const { return 1 + static_cast<unsigned>(std::bit_width(levels)); }
  unsigned sign() const { return 1u << (bits() - 1); }
};

std::size_t code_bytes(Code code, std::size_t count) { return (count * code.bits() + 7) / 8; }

/// The fraction of the scale that a damped codec writes: sum x_i^2 / E sum C(x)_i^2, where C(x) are
/// the decoded values without damping.
double damping(Code code, std::span<const float> values, double scale) {
  double exact = 0;
  double written = 0;
  for (const float value : values) {
    const double level = std::min<double>(std::abs(value) * scale, code.levels);
    const double below = std::floor(level);
    exact += level * level;
    written += below * below + (level - below) * (2 * below + 1);
  }
  return written > 0 ? exact / written : 1;
}

void encode_bucket(Code code, bool damped, std::span<const float> values, Rng& rng,
                   std::byte* out) {
  const float largest = largest_magnitude(values);
  std::memcpy(out, &largest, sizeof largest);
  std::byte* const codes = out + sizeof largest;
  std::memset(codes, 0, code_bytes(code, values.size()));
  if (!std::isfinite(largest)) return;
  const double scale = largest > 0 ? code.levels / static_cast<double>(largest) : 0;
  if (damped) {
    const auto smaller = static_cast<float>(largest * damping(code, values, scale));
    std::memcpy(out, &smaller, sizeof smaller);
  }
  for (std::size_t i = 0; i < values.size(); ++i) {
    // The scale is rounded, so the largest value can end up slightly above the last level.
    const double level = std::min<double>(std::abs(values[i]) * scale, code.levels);
    const double below = std::floor(level);
    unsigned written = static_cast<unsigned>(below) + (rng.chance(level - below) ? 1 : 0);
    if (written != 0 && values[i] < 0) written |= code.sign();
    const std::size_t bit = i * code.bits();
    written <<= bit % 8;
    codes[bit / 8] |= static_cast<std::byte>(written);
    if (written > 0xff) codes[bit / 8 + 1] |= static_cast<std::byte>(written >> 8);
  }
}

bool decode_bucket(Code code, const std::byte* bytes, std::span<float> out) {
  const auto largest = number_at<float>(bytes);
  if (!std::isfinite(largest) || largest < 0) return false;
  // The value of each code in this bucket, computed once, so that no element needs a division. NaN
  // marks invalid codes.
  std::array<float, 256> meanings;
  meanings.fill(std::numeric_limits<float>::quiet_NaN());
  for (unsigned level = 0; level <= code.levels; ++level) {
    const auto value = static_cast<float>(static_cast<double>(largest) * level / code.levels);
    meanings[level] = value;
    meanings[level | code.sign()] = -value;
  }
  const std::byte* const codes = bytes + sizeof largest;
  const unsigned mask = 2 * code.sign() - 1;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::size_t bit = i * code.bits();
    unsigned written = std::to_integer<unsigned>(codes[bit / 8]) >> bit % 8;
    if (bit % 8 + code.bits() > 8) {
      written |= std::to_integer<unsigned>(codes[bit / 8 + 1]) << (8 - bit % 8);
    }
    out[i] = meanings[written & mask];
  }
  return is_finite(out);
}

}  // namespace

std::size_t qsgd_size(unsigned levels, std::size_t count) {
  check(levels >= 1 && levels <= qsgd_levels_max, "levels that a byte holds with their sign");
  const std::size_t buckets = (count + qsgd_bucket - 1) / qsgd_bucket;
  return buckets * sizeof(float) + code_bytes({levels}, count);
}

void encode_qsgd(unsigned levels, bool damped, std::span<const float> values, Rng& rng,
                 std::span<std::byte> out) {
  check(out.size() == qsgd_size(levels, values.size()), "encoded values have their exact size");
  const std::size_t bucket_bytes = qsgd_size(levels, qsgd_bucket);
  for (std::size_t at = 0, bucket = 0; at < values.size(); at += qsgd_bucket, ++bucket) {
    const std::size_t count = std::min(qsgd_bucket, values.size() - at);
    std::byte* const to = out.data() + bucket * bucket_bytes;
    encode_bucket({levels}, damped, values.subspan(at, count), rng, to);
  }
}

bool decode_qsgd(unsigned levels, std::span<const std::byte> bytes, std::span<float> out) {
  if (bytes.size() != qsgd_size(levels, out.size())) return false;
  const std::size_t bucket_bytes = qsgd_size(levels, qsgd_bucket);
  for (std::size_t at = 0, bucket = 0; at < out.size(); at += qsgd_bucket, ++bucket) {
    const std::size_t count = std::min(qsgd_bucket, out.size() - at);
    const std::byte* const from = bytes.data() + bucket * bucket_bytes;
    if (!decode_bucket({levels}, from, out.subspan(at, count))) return false;
  }
  return true;
}

}  // namespace gv
