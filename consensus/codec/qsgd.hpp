// QSGD rounds each value at random to a level, a fraction of the largest magnitude in its bucket.
#pragma once

#include <cstddef>
#include <span>

#include "base/rng.hpp"

namespace gv {

// This follows Alistarh et al. 2017, section 3.1, but scales by the largest magnitude, as they do
// in their experiments. Every bucket of 512 values is written as its largest magnitude m (a float)
// and, for each value x_i, a sign and a level q from 0 to s. To find q, s|x_i|/m is rounded up or
// down at random, so that the expected value of m q / s is |x_i|. The expected squared error is
// (m/s)^2 sum f_i (1 - f_i), where f_i is the fractional part of s|x_i|/m. Relative to sum x_i^2
// this is at most 0.008 for s = 127 and 1.2 for s = 7. For normally distributed values it is 0.0002
// and 0.06. (If values were scaled by the Euclidean norm, the bounds would be 0.03 and 3.2. A ring
// rounds partial sums again in every round, which multiplies the error.) With one level this is
// TernGrad (Wen 2017): m times -1, 0 or 1, with an expected squared error of m ||x||_1 - ||x||_2^2
// in a bucket.

constexpr std::size_t qsgd_bucket = 512;  ///< Number of values that share a scale.
/// The largest number of levels for which a level and a sign fit into one byte.
constexpr unsigned qsgd_levels_max = 127;

/// Bytes for `count` values with s levels (1 to 127). A sign and a level together take 2 +
/// floor(log2(s)) bits: 3 bits for 3 levels, 5 bits for 15.
std::size_t qsgd_size(unsigned levels, std::size_t count);

/// Writes `values` into `out`, which must have their qsgd_size(). Draws from `rng` once for each
/// value. If a value is not finite, `decode_qsgd` refuses the bytes. If `damped`, levels are drawn
/// as usual, but the scale written for a bucket is m sum x_i^2 / E sum C(x)_i^2. This minimises the
/// expected squared error: (1 - delta) sum x_i^2 with delta = sum x_i^2 / E sum C(x)_i^2.
void encode_qsgd(unsigned levels, bool damped, std::span<const float> values, Rng& rng,
                 std::span<std::byte> out);

/// Reads out.size() values. Returns false if the bytes have the wrong size, a level is above the
/// last one, or a value is not finite. `out` is then unspecified.
bool decode_qsgd(unsigned levels, std::span<const std::byte> bytes, std::span<float> out);

}  // namespace gv
