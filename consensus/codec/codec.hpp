// Codecs: how vectors of floats become bytes, with bounds on the loss.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/problems.hpp"
#include "base/rng.hpp"

namespace gv {

/// How d values become bytes. A bucket has 512 values, but the last one may have fewer. m is the
/// largest magnitude in a bucket.
///
/// | kind     | what is written                                  | bytes, about  | it is       |
/// |----------|--------------------------------------------------|---------------|-------------|
/// | identity | the values                                       | 4 d           | lossless    |
/// | fp16     | the nearest half precision number                | 2 d           | contractive |
/// | bf16     | the nearest bfloat16                             | 2 d           | contractive |
/// | qsgd     | for each bucket m, signs and random levels of m  | d (127 levels)| unbiased    |
/// | terngrad | for each bucket m, for each value -1, 0 or 1     | d / 4         | unbiased    |
/// | sign     | for each bucket the mean magnitude, and signs    | d / 8         | contractive |
/// | top_k    | the k values of largest magnitude, their indices | 6 k           | contractive |
/// | random_k | k random values, times d/k, and a seed           | 4 k           | unbiased    |
///
/// Here k = ceil(fraction * d), which is at least 1. Offers of exchanges contain a kind's number,
/// so the numbers are part of the wire format.
enum class CodecKind : std::uint8_t {
  identity,
  fp16,
  bf16,
  qsgd,
  /// This is qsgd with one level. Buckets help, because their m is smaller than that of the whole
  /// vector.
  terngrad,
  sign,
  top_k,
  random_k,
};

inline constexpr std::array codec_kinds = {
    CodecKind::identity, CodecKind::fp16, CodecKind::bf16,  CodecKind::qsgd,
    CodecKind::terngrad, CodecKind::sign, CodecKind::top_k, CodecKind::random_k};

/// The name used in configs, for example "top_k".
std::string_view to_string(CodecKind kind);

/// A codec's kind and parameters.
struct Codec {
  CodecKind kind = CodecKind::identity;
  double fraction = 0.01;  ///< top_k, random_k: the fraction of values kept, in (0, 1].
  unsigned levels = 127;   ///< qsgd: the number of levels, 1 to 127. Numbers of the form 2^n - 1
                           ///< leave no bit of a code unused.
  /// Makes unbiased codecs write a smaller scale, so that they are contractive in expectation.
  /// Decoders work the same either way. Used with error feedback, which sends the values lost in
  /// one message with a later one. Without damping, an unbiased codec with omega of 1 or more would
  /// lose more in each message than it sends.
  bool damped = false;

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

/// A codec and its name in configs.
struct NamedCodec {
  std::string_view name;
  Codec codec;
};

/// The summable codecs that configs can name. A codec's index here is its number in encoded sparse
/// vectors.
inline constexpr std::array summable_codecs = {
    NamedCodec{"identity", Codec::identity}, NamedCodec{"fp16", Codec::fp16},
    NamedCodec{"bf16", Codec::bf16}, NamedCodec{"qsgd8", Codec::qsgd8},
    NamedCodec{"qsgd4", Codec::qsgd4}};

/// The codecs of fixed width, which write every value separately. They come first in the list
/// above.
inline constexpr std::span<const NamedCodec> fixed_width_codecs() {
  return std::span(summable_codecs).first(3);
}

/// The codecs of pair exchanges. Codecs without a fixed width need a memory that both peers keep
/// (PairMemories).
inline constexpr std::array exchange_codecs = {
    NamedCodec{"identity", Codec::identity}, NamedCodec{"fp16", Codec::fp16},
    NamedCodec{"bf16", Codec::bf16}, NamedCodec{"qsgd8", Codec::qsgd8},
    NamedCodec{"top_k", Codec{.kind = CodecKind::top_k}}};

/// Lists everything that is wrong with the parameters. The functions below need valid parameters.
Problems problems_of(const Codec& codec);

/// Properties of C, a codec followed by its decoder, for every x of a given size. A lossy codec is
/// either unbiased or contractive (delta > 0). An unbiased codec whose output is divided by 1 +
/// omega is contractive in expectation, with delta = 1 / (1 + omega). A damped codec writes this
/// output, with the omega of the vector at hand. Norms are Euclidean. All this holds up to the
/// rounding of results to float, a relative error of 1e-7.
struct CodecTraits {
  double bits = 32;  ///< Bits per value, averaged over the whole vector.
  /// True if an all-reduce may write its partial sums with this codec. Such a codec can also write
  /// the mean of vectors that it can write, and adds no bias when every peer encodes sums again.
  bool summable = false;
  bool lossless = false;
  bool unbiased = false;  ///< The expected result is exact: E C(x) = x.
  /// True if C(x) + C(y) = C(x + y) whenever all three use generators in the same state. Peers that
  /// share a seed can therefore sum codes.
  bool linear = false;
  /// The smallest omega with E ||C(x) - x||^2 <= omega ||x||^2. For qsgd and terngrad with s levels
  /// and buckets of n values it is (sqrt(1 + (n-1)/s^2) - 1) / 2, attained if one value is s and
  /// all others are s / (s + sqrt(s^2 + n - 1)). For random_k it is d/k - 1, attained by every x.
  double omega = 0;
  /// The largest delta with ||C(x) - x||^2 <= (1 - delta) ||x||^2, in expectation if the codec is
  /// damped. It is 0 for unbiased codecs, for which only the expected error has a bound, and k/d
  /// for top_k. For sign it is 1 / (bucket size), attained if all values but one are 0. For a given
  /// x, sign keeps ||x||_1^2 / (d ||x||_2^2) of a bucket, which is 2/pi for normally distributed
  /// values. For fp16 it is 1 - 2^-22 and for bf16 1 - 2^-16, if all values are normal numbers in
  /// that format. Smaller values lose up to 2^-25 and 2^-134 each.
  double delta = 0;
};
CodecTraits traits_of(const Codec& codec, std::size_t elements);

/// The part of the squared norm of normally distributed values that a codec keeps when it is
/// damped: 1 - E ||C(x) - x||^2 / ||x||^2. The bounds in CodecTraits are for the worst values,
/// which are rare in models: terngrad keeps 0.38 of normally distributed values, and 0.08 of the
/// worst.
double usual_delta(const Codec& codec, std::size_t elements);

/// The largest value that remains finite when the codec writes it.
float largest_writable(const Codec& codec);
/// True if all values are finite and remain finite when the codec writes them.
bool is_writable(const Codec& codec, std::span<const float> values);

/// Bytes for `elements` < 2^32 values; 0 for none. All vectors of one size take the same number of
/// bytes. top_k needs a header of 12 bytes, 4 bytes for every 65536 elements, and 2 bytes for each
/// index (see sparse_vector.hpp). If the whole vector with its zeros is shorter, it is written
/// instead.
std::size_t encoded_size(const Codec& codec, std::size_t elements);

/// Writes `values` into `out`, which must have their encoded size. qsgd and terngrad draw from
/// `rng` once for each value, random_k once, the others never. If a value is not finite, or is no
/// longer finite when encoded, `decode` refuses the bytes. This holds for every codec.
void encode(const Codec& codec, std::span<const float> values, Rng& rng, std::span<std::byte> out);

/// Reads out.size() values. `bytes` may have any contents. Returns false if they have the wrong
/// size, do not come from this codec, or hold a value that is not finite. `out` is then
/// unspecified.
bool decode(const Codec& codec, std::span<const std::byte> bytes, std::span<float> out);

// ---- Codecs of fixed width: identity, fp16 and bf16, which write every value separately ----

/// Bytes of one value if the codec has a fixed width, otherwise 0.
std::size_t bytes_per_element(const Codec& codec);

/// Like encode(), but never random. A value that is out of range becomes infinity.
void encode_each(const Codec& codec, std::span<const float> values, std::span<std::byte> out);

/// Like decode(), for bytes of the right size. Values need not be finite.
void decode_each(const Codec& codec, std::span<const std::byte> bytes, std::span<float> out);

/// Returns the values of encoded bytes. If the bytes are already aligned floats, returns them in
/// place. Otherwise they are decoded into `scratch`, which must be large enough.
std::span<const float> decoded(const Codec& codec, std::span<const std::byte> bytes,
                               std::span<float> scratch);

}  // namespace gv
