// Codecs that lose something, as values: what each loses is known before a byte is written.
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

/// How d values become bytes. Buckets are 512 values, the last one may be shorter; m is the largest
/// magnitude of a bucket.
///
/// | kind     | what is written                                  | bytes, about  | it is       |
/// |----------|--------------------------------------------------|---------------|-------------|
/// | identity | the values                                       | 4 d           | lossless    |
/// | fp16     | the nearest half precision number                | 2 d           | contractive |
/// | bf16     | the nearest bfloat16                             | 2 d           | contractive |
/// | qsgd     | by bucket m, signs and random levels of m        | d (127 levels)| unbiased    |
/// | terngrad | by bucket m, and -1, 0 or 1 drawn for each value | d / 4         | unbiased    |
/// | sign     | by bucket the mean magnitude, and signs          | d / 8         | contractive |
/// | top_k    | the k largest by magnitude and where they are    | 6 k           | contractive |
/// | random_k | k drawn values, times d/k, and what drew them    | 4 k           | unbiased    |
///
/// with k = ceil(fraction d), which is at least 1.
enum class LossyKind : std::uint8_t {
  identity,
  fp16,
  bf16,
  qsgd,      ///< Alistarh 2017; see ring/value_codec.hpp for its levels and why m scales them.
  terngrad,  ///< Wen 2017: qsgd with one level. By bucket, since a bucket's m is the smaller one.
  sign,      ///< Scaled sign (Karimireddy 2019). By bucket, which never loses more than by vector:
             ///< sum ||x_b||_1^2 / d_b >= ||x||_1^2 / d. Zeros are written as plus the scale.
  top_k,     ///< Stich 2018. Of equal magnitudes the smaller index is taken.
  random_k,  ///< Stich 2018, unbiased form. The seed is written, 8 bytes, and no index.
};

inline constexpr std::array lossy_kinds = {
    LossyKind::identity, LossyKind::fp16, LossyKind::bf16,  LossyKind::qsgd,
    LossyKind::terngrad, LossyKind::sign, LossyKind::top_k, LossyKind::random_k};

/// The name people write, as "top_k".
std::string_view to_string(LossyKind kind);

/// The kind of that name; empty if there is none.
std::optional<LossyKind> lossy_kind_named(std::string_view name);

/// A kind with its parameters.
struct LossyCodec {
  LossyKind kind = LossyKind::identity;
  double fraction = 0.01;  ///< top_k, random_k: the share of the values that is kept, in (0, 1].
  unsigned levels = 127;   ///< qsgd: 1 to 127; 3, 7, 15, ... use all of their bits.

  friend bool operator==(const LossyCodec&, const LossyCodec&) = default;
};

/// Everything that is wrong with the parameters. The functions below need that nothing is.
Problems problems_of(const LossyCodec& codec);

/// What is known of C, a codec followed by its decoder, for every x of some size. A lossy one is
/// either unbiased or contractive (delta > 0). Divided by 1 + omega an unbiased one is contractive
/// in the mean, with delta = 1 / (1 + omega). Norms are Euclidean; all of it up to the rounding of
/// results to float, a share of 1e-7.
struct LossyTraits {
  bool lossless = false;
  bool unbiased = false;  ///< E C(x) = x.
  /// C(x) + C(y) = C(x + y) if all are made with generators in one state: codes can be summed where
  /// peers draw from a seed that they share.
  bool linear = false;
  /// E ||C(x) - x||^2 <= omega ||x||^2, and no smaller number will do. For qsgd and terngrad of s
  /// levels (sqrt(1 + (n-1)/s^2) - 1) / 2 in buckets of n, reached by one value of s and all others
  /// of s / (s + sqrt(s^2 + n - 1)); for random_k d/k - 1, which every x reaches.
  double omega = 0;
  /// ||C(x) - x||^2 <= (1 - delta) ||x||^2; 0 for unbiased ones, of which nothing is known but the
  /// mean. top_k: k/d. sign: one over the bucket's size, for one value among zeros, and
  /// ||x||_1^2 / (d ||x||_2^2) for a given x, 2/pi for normal ones. fp16, bf16: 1 - 2^-22, 1 -
  /// 2^-16 for values that are normal numbers there; smaller ones lose up to 2^-25 and 2^-134 each.
  double delta = 0;
};
LossyTraits traits_of(const LossyCodec& codec, std::size_t elements);

/// Bytes of `elements` < 2^32 values: the same for all vectors of that size, and 0 for none.
/// top_k's places cost 2 bytes each, 4 for every 65536 elements and 12 in all (see
/// ring/stream.hpp), or the vector is written with its zeros where that is shorter.
std::size_t encoded_size(const LossyCodec& codec, std::size_t elements);

/// Writes `values` into `out`, which has their encoded size, all of it. `rng` is drawn from once a
/// value by qsgd and terngrad, once by random_k, by others not at all. If a value is not finite, or
/// becomes so as it is written, `decode` refuses the bytes, whatever the kind.
void encode(const LossyCodec& codec, std::span<const float> values, Rng& rng,
            std::span<std::byte> out);

/// Reads out.size() values. False, and `out` is of no use, if the bytes have another size, are no
/// code of this codec or hold a value that is not finite. Any bytes may be given.
bool decode(const LossyCodec& codec, std::span<const std::byte> bytes, std::span<float> out);

}  // namespace gv
