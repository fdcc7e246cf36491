// A vector on its way through an all-reduce: some of its values with their places, or all values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/rng.hpp"
#include "consensus/codec/codec.hpp"

namespace gv {

/// How the values of a vector are written.
struct WireFormat {
  Codec codec;          ///< One of the summable ones.
  bool sparse = false;  ///< Zeros are left out where that takes fewer bytes.

  bool is_plain() const { return codec == Codec::identity && !sparse; }
};

/// A vector of `size` floats, fewer than 2^32. A *dense* one holds all values. A *sparse* one holds
/// some values with their places; the others are zero (SparCML: Renggli et al. 2019, section 5).
/// Places are 16-bit offsets within blocks of 65536, so an index costs half as much as in the
/// paper.
class SparseVector {
 public:
  static SparseVector dense(std::vector<float> values);

  /// `indices` ascend, are below `size` and are as many as `values`. Values may be zero.
  static SparseVector sparse(std::size_t size, std::span<const std::size_t> indices,
                             std::vector<float> values);

  std::size_t size() const { return size_; }
  bool is_dense() const { return dense_; }

  /// All values of a dense vector; the stored ones of a sparse one.
  std::span<const float> values() const { return values_; }

  /// The index of each of `values` in the vector.
  std::vector<std::size_t> indices() const;

  /// Adds every value to its place in `sum`, which has `size` elements.
  void add_to(std::span<float> sum) const;

  friend bool operator==(const SparseVector&, const SparseVector&) = default;

 private:
  friend SparseVector merge(SparseVector a, const SparseVector& b, const Codec& codec);
  friend std::vector<std::byte> encode(const SparseVector& stream, const Codec& codec, Rng& rng);
  friend std::optional<SparseVector> decode(std::span<const std::byte> bytes, std::size_t size);

  std::size_t size_ = 0;
  bool dense_ = true;
  std::vector<float> values_;
  // For a sparse vector only: the number of values in each block, and each value's place in it.
  std::vector<std::uint32_t> counts_;
  std::vector<std::uint16_t> offsets_;
};

/// Bytes of `stream` when encoded: a header of 12 bytes and the values; a sparse one needs 2 more
/// for each value and 4 for each block of 65536.
std::size_t encoded_size(const SparseVector& stream, const Codec& codec);

/// The same for a vector that is not made yet, of `size` elements with `values` stored ones. A
/// dense vector stores `size` values.
std::size_t encoded_stream_size(bool is_dense, std::size_t size, std::size_t values,
                                const Codec& codec);

/// The same vector, made dense if that takes fewer bytes: if it stores two thirds of the elements
/// with 4-byte values, or a fifth with 4-bit values.
SparseVector compact(SparseVector stream, const Codec& codec);

/// The compact sum of two vectors of one size, in linear time. A sparse sum holds the places of
/// both. Addition commutes but is not associative, so only a fixed order of merges gives fixed
/// bits.
SparseVector merge(SparseVector a, const SparseVector& b, const Codec& codec = Codec::identity);

/// Top-k with error feedback (Stich, Cordonnier and Jaggi 2018; per block as in SparCML's Top16).
/// Adds `gradient` to `residual`, takes the `k` largest by magnitude from every block of `block`
/// elements, and leaves the others in `residual` for the next call. Of equal magnitudes those of
/// smaller index are taken; zeros are never taken. Contractive: the new residual has at most
/// 1 - k/block of the squares of the sum. The values taken in all calls and the last residual add
/// up to all gradients, except for the rounding of that one addition. `residual` has the gradient's
/// size and starts as zeros.
SparseVector top_k_per_block(std::span<const float> gradient, std::span<float> residual,
                             std::size_t block = 512, std::size_t k = 16);

/// Adds to `residual` what a codec lost: `sent` is `exact` after encoding and decoding.
void keep_error(const SparseVector& exact, const SparseVector& sent, std::span<float> residual);

/// Little-endian: form (0 sparse, 1 dense), codec, two zero bytes, size and number of values as
/// 32-bit integers; if sparse, 32-bit counts by block and 16-bit offsets; then the values. Codecs
/// that round at random draw from `rng`.
std::vector<std::byte> encode(const SparseVector& stream, const Codec& codec, Rng& rng);

/// The vector of `size` elements encoded in `bytes`. Empty if any byte does not fit that form or a
/// value is not finite. Allocates no more than `size` elements need.
std::optional<SparseVector> decode(std::span<const std::byte> bytes, std::size_t size);

}  // namespace gv
