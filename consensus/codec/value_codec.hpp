// The codecs for values in an all-reduce: exact, in half the bytes, or in a few levels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/rng.hpp"

namespace gv {

/// The first three are those of codec.hpp, with the same numbers. The others are QSGD (Alistarh et
/// al. 2017, section 3.1, scaled by the largest magnitude as in its experiments). Every bucket of
/// 512 values is written as its largest magnitude m (a float) and, for each value, a sign and a
/// level q of s = 127 or 7: s|x_i|/m is rounded up or down at random so that the expected value of
/// m q / s is x_i. The expected squared error is (m/s)^2 sum f_i (1 - f_i), where f_i is the
/// fraction that is rounded away: at most 0.008 and 1.2 times the squares of the values, and 0.0002
/// and 0.06 times those of normally distributed ones. (Scaled by the Euclidean norm it would be
/// 0.03 and 3.2 times. A ring rounds partial sums again in every round, which multiplies the
/// error.)
enum class ValueCodec : std::uint8_t { identity = 0, fp16 = 1, bf16 = 2, qsgd8 = 3, qsgd4 = 4 };

/// How the values of a vector are written.
struct WireFormat {
  ValueCodec codec = ValueCodec::identity;
  bool sparse = false;  ///< Zeros are left out where that takes fewer bytes.

  bool is_plain() const { return codec == ValueCodec::identity && !sparse; }
};

constexpr std::size_t qsgd_bucket = 512;   ///< Values that share a scale.
constexpr unsigned qsgd_levels_max = 127;  ///< With a sign they fill a byte.

std::string_view to_string(ValueCodec codec);
std::optional<ValueCodec> value_codec_from_name(std::string_view name);

/// True if all values are finite and stay so when the codec writes them. The mean of writable
/// vectors is writable too.
bool is_writable(ValueCodec codec, std::span<const float> values);

/// Bytes of `count` values: 4, 2, 2, 1 or 1/2 each, rounded up, and for QSGD 4 for each bucket.
std::size_t encoded_size(ValueCodec codec, std::size_t count);

/// Writes `values` into `out`, which has their encoded size. Only QSGD draws from `rng`, once for
/// each value. If a value is not finite, or its encoded form is not, `decode` refuses the bytes.
void encode(ValueCodec codec, std::span<const float> values, Rng& rng, std::span<std::byte> out);

/// Reads out.size() values. False if the bytes have the wrong size or a value is not finite; the
/// contents of `out` are then unspecified.
bool decode(ValueCodec codec, std::span<const std::byte> bytes, std::span<float> out);

/// Bytes of `count` values by QSGD with any number of levels s from 1 to 127. A sign and a level
/// take 2 + floor(log2(s)) bits: 3 bits for 3 levels, 5 bits for 15. qsgd8 and qsgd4 have 127 and 7
/// levels. One level is TernGrad (Wen 2017): m times -1, 0 or 1, with an expected squared error of
/// m ||x||_1 - ||x||_2^2 in a bucket.
std::size_t qsgd_size(unsigned levels, std::size_t count);
/// Like encode, into qsgd_size bytes.
void encode_qsgd(unsigned levels, std::span<const float> values, Rng& rng,
                 std::span<std::byte> out);
/// Like decode; a level above the last one is refused too.
bool decode_qsgd(unsigned levels, std::span<const std::byte> bytes, std::span<float> out);

}  // namespace gv
