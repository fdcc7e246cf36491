// Lossy codecs as values, with bounds on what each loses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "base/problems.hpp"
#include "base/rng.hpp"

namespace gv {

/// How d values become bytes. A bucket has 512 values, the last one may be shorter; m is the
/// largest magnitude in a bucket.
///
/// | kind     | what is written                                  | bytes, about  | it is       |
/// |----------|--------------------------------------------------|---------------|-------------|
/// | identity | the values                                       | 4 d           | lossless    |
/// | fp16     | the nearest half precision number                | 2 d           | contractive |
/// | bf16     | the nearest bfloat16                             | 2 d           | contractive |
/// | qsgd     | by bucket m, signs and random levels of m        | d (127 levels)| unbiased    |
/// | terngrad | by bucket m, and -1, 0 or 1 drawn for each value | d / 4         | unbiased    |
/// | sign     | by bucket the mean magnitude, and signs          | d / 8         | contractive |
/// | top_k    | the k largest by magnitude, and their places     | 6 k           | contractive |
/// | random_k | k drawn values, times d/k, and the seed          | 4 k           | unbiased    |
///
/// with k = ceil(fraction d), which is at least 1.
enum class LossyKind : std::uint8_t {
  identity,
  fp16,
  bf16,
  qsgd,      ///< Alistarh 2017; value_codec.hpp explains its levels and why m scales them.
  terngrad,  ///< Wen 2017: qsgd with one level. By bucket, as its m is smaller than the vector's.
  sign,      ///< Scaled sign (Karimireddy 2019). By bucket, which never loses more than by vector:
             ///< sum ||x_b||_1^2 / d_b >= ||x||_1^2 / d. Zeros are written as plus the scale.
  top_k,     ///< Stich 2018. Of equal magnitudes the one with the smaller index is taken.
  random_k,  ///< Stich 2018, unbiased form. The seed is written, 8 bytes, and no index.
};

inline constexpr std::array lossy_kinds = {
    LossyKind::identity, LossyKind::fp16, LossyKind::bf16,  LossyKind::qsgd,
    LossyKind::terngrad, LossyKind::sign, LossyKind::top_k, LossyKind::random_k};

/// The name used in configs, for example "top_k".
std::string_view to_string(LossyKind kind);

/// The kind called `name`; empty if there is none.
std::optional<LossyKind> lossy_kind_named(std::string_view name);

/// A kind with its parameters.
struct LossyCodec {
  LossyKind kind = LossyKind::identity;
  double fraction = 0.01;  ///< top_k, random_k: the fraction of values kept, in (0, 1].
  unsigned levels = 127;   ///< qsgd: 1 to 127. 3, 7, 15, ... use all of their bits.

  friend bool operator==(const LossyCodec&, const LossyCodec&) = default;
};

/// Everything that is wrong with the parameters. The functions below need sound parameters.
Problems problems_of(const LossyCodec& codec);

/// Properties of C, a codec followed by its decoder, for every x of a given size. A lossy codec is
/// either unbiased or contractive (delta > 0). An unbiased one divided by 1 + omega is contractive
/// in expectation, with delta = 1 / (1 + omega). Norms are Euclidean. All this holds up to the
/// rounding of results to float, a relative error of 1e-7.
struct LossyTraits {
  bool lossless = false;
  bool unbiased = false;  ///< E C(x) = x.
  /// C(x) + C(y) = C(x + y) if all three use generators in the same state. Peers that share a seed
  /// can therefore sum codes.
  bool linear = false;
  /// The least omega with E ||C(x) - x||^2 <= omega ||x||^2. qsgd and terngrad with s levels and
  /// buckets of n: (sqrt(1 + (n-1)/s^2) - 1) / 2, reached by one value of s and all others of
  /// s / (s + sqrt(s^2 + n - 1)). random_k: d/k - 1, which every x reaches.
  double omega = 0;
  /// ||C(x) - x||^2 <= (1 - delta) ||x||^2; 0 for unbiased codecs, which bound only the mean.
  /// top_k: k/d. sign: one over the bucket's size, reached by one value among zeros;
  /// ||x||_1^2 / (d ||x||_2^2) for a given x, which is 2/pi for normally distributed values.
  /// fp16, bf16: 1 - 2^-22, 1 - 2^-16 for values that are normal numbers in that format; smaller
  /// ones lose up to 2^-25 and 2^-134 each.
  double delta = 0;
};
LossyTraits traits_of(const LossyCodec& codec, std::size_t elements);

/// Bytes of `elements` < 2^32 values: the same for all vectors of that size, and 0 for none.
/// top_k's places cost 2 bytes each, 4 for every 65536 elements and 12 in all (see
/// sparse_vector.hpp); the vector is written with its zeros where that is shorter.
std::size_t encoded_size(const LossyCodec& codec, std::size_t elements);

/// Writes `values` into `out`, which has their encoded size and is filled. qsgd and terngrad draw
/// from `rng` once for each value, random_k once, the others not at all. If a value is not finite,
/// or its encoded form is not, `decode` refuses the bytes, whatever the kind.
void encode(const LossyCodec& codec, std::span<const float> values, Rng& rng,
            std::span<std::byte> out);

/// Reads out.size() values. Any bytes may be given. False if they have the wrong size, are no code
/// of this codec or hold a value that is not finite; the contents of `out` are then unspecified.
bool decode(const LossyCodec& codec, std::span<const std::byte> bytes, std::span<float> out);

}  // namespace gv
