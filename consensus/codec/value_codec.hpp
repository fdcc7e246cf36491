// How the values of a reduction are written: exactly, in half the bytes, or in a few levels.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/rng.hpp"

namespace gv {

/// The first three are those of exchange/codec.hpp, with the same numbers. The others are QSGD
/// (Alistarh et al. 2017, section 3.1, scaled by the largest magnitude as in its experiments):
/// every bucket of 512 values is written as its largest magnitude m (a float) and for each value a
/// sign and a level q of s = 127 or 7, where s|x_i|/m is rounded up or down at random so that the
/// expected value m q / s is x_i. The expected squared error is (m/s)^2 sum f_i (1 - f_i), with f_i
/// the fraction that is rounded away: at most 0.008 and 1.2 times the squares of the values, and
/// 0.0002 and 0.06 times those of normally distributed ones. (Scaled by the Euclidean norm it is
/// 0.03 and 3.2 times. A ring rounds partial sums anew in every round, so that is multiplied.)
enum class ValueCodec : std::uint8_t { identity = 0, fp16 = 1, bf16 = 2, qsgd8 = 3, qsgd4 = 4 };

constexpr std::size_t qsgd_bucket = 512;   ///< Values that share a scale.
constexpr unsigned qsgd_levels_max = 127;  ///< With a sign they fill a byte.

std::string_view to_string(ValueCodec codec);
std::optional<ValueCodec> value_codec_from_name(std::string_view name);

/// All values are finite, and none is too large to be so as the codec writes it. Means of vectors
/// of which this holds are writable too.
bool is_writable(ValueCodec codec, std::span<const float> values);

/// Bytes that `count` values take: 4, 2, 2, 1 or 1/2 each, rounded up, and 4 for each bucket.
std::size_t encoded_size(ValueCodec codec, std::size_t count);

/// Writes `values` into `out`, which has their encoded size. `rng` is drawn from by QSGD alone,
/// once for each value. Values that are not finite, or become so, make bytes that `decode` refuses.
void encode(ValueCodec codec, std::span<const float> values, Rng& rng, std::span<std::byte> out);

/// Reads out.size() values. False, and `out` is of no use, if the bytes are of another size or a
/// value among them is not finite.
bool decode(ValueCodec codec, std::span<const std::byte> bytes, std::span<float> out);

/// The same QSGD with any number of levels s of 1 to 127: a sign and a level take
/// 2 + floor(log2(s)) bits, so 3 levels 3 bits and 15 levels 5. qsgd8 and qsgd4 are those of 127
/// and 7. One level is TernGrad (Wen 2017): m times -1, 0 or 1, with the expected squared error
/// m ||x||_1 - ||x||_2^2 of a bucket.
std::size_t qsgd_size(unsigned levels, std::size_t count);
/// As encode, into qsgd_size bytes.
void encode_qsgd(unsigned levels, std::span<const float> values, Rng& rng,
                 std::span<std::byte> out);
/// As decode; a level above the last one is refused too.
bool decode_qsgd(unsigned levels, std::span<const std::byte> bytes, std::span<float> out);

}  // namespace gv
