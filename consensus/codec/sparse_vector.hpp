// A vector as it travels in an all-reduce: some of its values with their indices, or all values.
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
  Codec codec;          ///< Must be in summable_codecs.
  bool sparse = false;  ///< True if zeros are left out whenever that takes fewer bytes.

  bool is_plain() const { return codec == Codec::identity && !sparse; }
};

/// A vector of `size` floats, fewer than 2^32. A *dense* vector stores all values. A *sparse* one
/// stores some values with their indices; the others are zero (SparCML: Renggli et al. 2019,
/// section 5). An index is stored as a 16-bit offset within a block of 65536, half the size that
/// the paper uses.
class SparseVector {
 public:
  static SparseVector dense(std::vector<float> values);

  /// `indices` must ascend and be below `size`. There must be one index for each of `values`.
  /// Values may be zero.
  static SparseVector sparse(std::size_t size, std::span<const std::size_t> indices,
                             std::vector<float> values);

  std::size_t size() const { return size_; }
  bool is_dense() const { return dense_; }

  /// All values of a dense vector, or the stored values of a sparse one.
  std::span<const float> values() const { return values_; }

  /// The index of each of values() in the vector.
  std::vector<std::size_t> indices() const;

  /// Adds every value to its element of `sum`, which has `size` elements.
  void add_to(std::span<float> sum) const;

  friend bool operator==(const SparseVector&, const SparseVector&) = default;

 private:
  friend std::vector<std::byte> encode(const SparseVector& stream, const Codec& codec, Rng& rng);
  friend std::optional<SparseVector> decode(std::span<const std::byte> bytes, std::size_t size);

  std::size_t size_ = 0;
  bool dense_ = true;
  std::vector<float> values_;
  // Used only if sparse. `counts_` has the number of values in each block, and `offsets_` the
  // offset of each value in its block.
  std::vector<std::uint32_t> counts_;
  std::vector<std::uint16_t> offsets_;
};

/// Bytes of `stream` when encoded: a header of 12 bytes and the values. A sparse vector needs 2
/// more bytes for each value and 4 for each block of 65536 elements.
std::size_t encoded_size(const SparseVector& stream, const Codec& codec);

/// Bytes that a vector would take when encoded. The vector has `size` elements and `values` stored
/// values. A dense vector stores `size` values.
std::size_t encoded_stream_size(bool is_dense, std::size_t size, std::size_t values,
                                const Codec& codec);

/// Returns the same vector, made dense if that takes fewer bytes. The dense form is shorter once
/// the vector stores about two thirds of the elements with 4-byte values, or a fifth with 4-bit
/// values.
SparseVector compact(SparseVector stream, const Codec& codec);

/// Top-k with error feedback (Stich, Cordonnier and Jaggi 2018; per block as in SparCML's Top16).
/// Adds `gradient` to `residual`, takes the `k` largest magnitudes from every block of `block`
/// elements, and leaves the others in `residual` for the next call. On ties the smaller index wins;
/// zeros are never taken. Contractive: the squared norm of the new residual is at most 1 - k/block
/// times that of `gradient` plus the old residual. All values taken so far and the last residual
/// add up to the sum of all gradients, except for rounding. `residual` has the gradient's size and
/// starts as zeros.
SparseVector top_k_per_block(std::span<const float> gradient, std::span<float> residual,
                             std::size_t block = 512, std::size_t k = 16);

/// Adds the error of a codec to `residual`. `sent` must be `exact` after encoding and decoding.
void keep_error(const SparseVector& exact, const SparseVector& sent, std::span<float> residual);

/// Little-endian format: one byte for the form (0 sparse, 1 dense), one for the codec, two zero
/// bytes, then the size and the number of values as 32-bit integers. A sparse vector continues with
/// a 32-bit count for each block and the 16-bit offsets. The values come last. Codecs that round at
/// random draw from `rng`.
std::vector<std::byte> encode(const SparseVector& stream, const Codec& codec, Rng& rng);

/// Reads a vector of `size` elements. Returns nullopt if a byte violates the format or a value is
/// not finite. Allocates no more than `size` elements need.
std::optional<SparseVector> decode(std::span<const std::byte> bytes, std::size_t size);

}  // namespace gv
