// A vector on its way through a reduction: only the values that matter, or all of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/rng.hpp"
#include "consensus/codec/value_codec.hpp"

namespace gv {

/// A vector of `size` floats, fewer than 2^32. A *dense* one holds all values, a *sparse* one some
/// with their places, the others being zero (SparCML: Renggli et al. 2019, section 5). Places are
/// 16-bit offsets within blocks of 65536, so an index costs half of what it does in the paper.
class SparseVector {
 public:
  static SparseVector dense(std::vector<float> values);

  /// `indices` ascend, each below `size`; as many as `values`. A sparse stream may hold zeros.
  static SparseVector sparse(std::size_t size, std::span<const std::size_t> indices,
                             std::vector<float> values);

  std::size_t size() const { return size_; }
  bool is_dense() const { return dense_; }

  /// All values of a dense stream, the present ones of a sparse one.
  std::span<const float> values() const { return values_; }

  /// Where in the vector each of `values` is.
  std::vector<std::size_t> indices() const;

  /// Adds every value to its place in `sum`, which has `size` elements.
  void add_to(std::span<float> sum) const;

  friend bool operator==(const SparseVector&, const SparseVector&) = default;

 private:
  friend SparseVector merge(SparseVector a, const SparseVector& b, ValueCodec codec);
  friend std::vector<std::byte> encode(const SparseVector& stream, ValueCodec codec, Rng& rng);
  friend std::optional<SparseVector> decode(std::span<const std::byte> bytes, std::size_t size);

  std::size_t size_ = 0;
  bool dense_ = true;
  std::vector<float> values_;
  // Of a sparse stream only: how many values each block has, and where in its block each one is.
  std::vector<std::uint32_t> counts_;
  std::vector<std::uint16_t> offsets_;
};

/// Bytes of `stream` when encoded: 12 of header and its values; a sparse one needs 2 more for each
/// value and 4 for each block of 65536.
std::size_t encoded_size(const SparseVector& stream, ValueCodec codec);

/// The same before there is one: of `size` elements, with so many values of which a dense stream
/// has `size`.
std::size_t encoded_stream_size(bool is_dense, std::size_t size, std::size_t values,
                                ValueCodec codec);

/// The same vector, dense if that takes fewer bytes: with 4-byte values from two thirds of the
/// elements on, with 4-bit values from a fifth.
SparseVector compact(SparseVector stream, ValueCodec codec);

/// The sum of two vectors of one size, compact. A sparse sum holds the places of both, in linear
/// time. Addition commutes but does not associate: a fixed order of merges gives fixed bits.
SparseVector merge(SparseVector a, const SparseVector& b, ValueCodec codec = ValueCodec::identity);

/// Top-k with error feedback (Stich, Cordonnier and Jaggi 2018; per block as in SparCML's
/// Top16): adds `gradient` to `residual`, takes the `k` largest by magnitude from every block of
/// `block` elements, and leaves the rest there for the next time. Of equal magnitudes those of
/// smaller index are taken, zeros never. Contractive: what is left has at most 1 - k/block of the
/// squares of the sum. What was taken in all rounds and the last residual sum to all gradients, but
/// for the rounding of that one addition. `residual` has the gradient's size and starts as zeros.
SparseVector top_k_per_block(std::span<const float> gradient, std::span<float> residual,
                             std::size_t block = 512, std::size_t k = 16);

/// Puts into `residual` what a codec lost: `sent` is what `exact` was after encoding and decoding.
void keep_error(const SparseVector& exact, const SparseVector& sent, std::span<float> residual);

/// Little-endian: form (0 sparse, 1 dense), codec, two zero bytes, size and number of values as
/// 32-bit integers; if sparse, 32-bit counts by block and 16-bit offsets; then the values. `rng` is
/// for the codecs that round at random.
std::vector<std::byte> encode(const SparseVector& stream, ValueCodec codec, Rng& rng);

/// The stream of `size` elements that `bytes` hold; nothing if they are no such stream in every
/// byte, or hold a value that is not finite. Allocates no more than `size` elements need.
std::optional<SparseVector> decode(std::span<const std::byte> bytes, std::size_t size);

}  // namespace gv
