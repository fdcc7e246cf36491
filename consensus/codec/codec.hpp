// The codecs: how vectors of floats become bytes, with bounds on what each loses.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
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
/// with k = ceil(fraction d), which is at least 1. Numbers on the wire: those of the first three
/// are in offers of exchanges.
enum class CodecKind : std::uint8_t {
  identity,
  fp16,
  bf16,
  qsgd,
  terngrad,  ///< qsgd with one level. By bucket, as its m is smaller than the vector's.
  sign,
  top_k,
  random_k,
};

inline constexpr std::array codec_kinds = {
    CodecKind::identity, CodecKind::fp16, CodecKind::bf16,  CodecKind::qsgd,
    CodecKind::terngrad, CodecKind::sign, CodecKind::top_k, CodecKind::random_k};

/// The name used in configs, for example "top_k".
std::string_view to_string(CodecKind kind);

/// A kind with its parameters.
struct Codec {
  CodecKind kind = CodecKind::identity;
  double fraction = 0.01;  ///< top_k, random_k: the fraction of values kept, in (0, 1].
  unsigned levels = 127;   ///< qsgd: 1 to 127. 3, 7, 15, ... use all of their bits.

  friend bool operator==(const Codec&, const Codec&) = default;

  static const Codec identity;
  static const Codec fp16;
  static const Codec bf16;
  static const Codec qsgd8;  ///< qsgd with 127 levels: 8 bits for each value.
  static const Codec qsgd4;  ///< qsgd with 7 levels: 4 bits for each value.
};

inline constexpr Codec Codec::identity{};
inline constexpr Codec Codec::fp16{.kind = CodecKind::fp16};
inline constexpr Codec Codec::bf16{.kind = CodecKind::bf16};
inline constexpr Codec Codec::qsgd8{.kind = CodecKind::qsgd, .levels = 127};
inline constexpr Codec Codec::qsgd4{.kind = CodecKind::qsgd, .levels = 7};

/// A codec with the name that configs have for it.
struct NamedCodec {
  std::string_view name;
  Codec codec;
};

/// The summable codecs that configs name. The position is the number of the codec in a sparse
/// vector.
inline constexpr std::array summable_codecs = {
    NamedCodec{"identity", Codec::identity}, NamedCodec{"fp16", Codec::fp16},
    NamedCodec{"bf16", Codec::bf16}, NamedCodec{"qsgd8", Codec::qsgd8},
    NamedCodec{"qsgd4", Codec::qsgd4}};

/// The first of them: codecs of fixed width, which write every value by itself.
inline constexpr std::span<const NamedCodec> fixed_width_codecs() {
  return std::span(summable_codecs).first(3);
}

/// Everything that is wrong with the parameters. The functions below need sound parameters.
Problems problems_of(const Codec& codec);

/// Properties of C, a codec followed by its decoder, for every x of a given size. A lossy codec is
/// either unbiased or contractive (delta > 0). An unbiased one divided by 1 + omega is contractive
/// in expectation, with delta = 1 / (1 + omega). Norms are Euclidean. All this holds up to the
/// rounding of results to float, a relative error of 1e-7.
struct CodecTraits {
  double bits = 32;  ///< Of each value: those of the whole vector, divided by its size.
  /// An all-reduce may write its partial sums in it: the mean of vectors that it can write, it can
  /// write too, and writing them again at every peer does not pull sums to one side.
  bool summable = false;
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
CodecTraits traits_of(const Codec& codec, std::size_t elements);

/// True if all values are finite and stay so when the codec writes them.
bool is_writable(const Codec& codec, std::span<const float> values);

/// Bytes of `elements` < 2^32 values: the same for all vectors of that size, and 0 for none.
/// top_k's places cost 2 bytes each, 4 for every 65536 elements and 12 in all (see
/// sparse_vector.hpp); the vector is written with its zeros where that is shorter.
std::size_t encoded_size(const Codec& codec, std::size_t elements);

/// Writes `values` into `out`, which has their encoded size and is filled. qsgd and terngrad draw
/// from `rng` once for each value, random_k once, the others not at all. If a value is not finite,
/// or its encoded form is not, `decode` refuses the bytes, whatever the kind.
void encode(const Codec& codec, std::span<const float> values, Rng& rng, std::span<std::byte> out);

/// Reads out.size() values. Any bytes may be given. False if they have the wrong size, are no code
/// of this codec or hold a value that is not finite; the contents of `out` are then unspecified.
bool decode(const Codec& codec, std::span<const std::byte> bytes, std::span<float> out);

// ---- Codecs of fixed width: identity, fp16 and bf16, which write every value by itself ----

/// Bytes of one value if the codec has a fixed width, and 0 otherwise.
std::size_t bytes_per_element(const Codec& codec);

/// Like encode(), which then draws nothing. A value out of range becomes infinity.
void encode_each(const Codec& codec, std::span<const float> values, std::span<std::byte> out);

/// Like decode() for bytes of the right size. Values need not be finite.
void decode_each(const Codec& codec, std::span<const std::byte> bytes, std::span<float> out);

/// The values of encoded bytes: the bytes themselves if they already are aligned floats, otherwise
/// decoded into `scratch`, which must have room for them.
std::span<const float> decoded(const Codec& codec, std::span<const std::byte> bytes,
                               std::span<float> scratch);

}  // namespace gv
