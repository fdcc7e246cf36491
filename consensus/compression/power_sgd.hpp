// PowerSGD: a gradient's matrices are sent as low-rank factors, which a ring can sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.hpp"

namespace gv {

/// The place of a matrix in a gradient: rows x cols floats from `begin` on, row by row.
struct MatrixPlace {
  std::size_t begin = 0;
  std::size_t rows = 1;
  std::size_t cols = 1;
};

/// Which parts of a gradient are sent as factors, and their rank.
struct FactorShape {
  std::size_t elements = 0;  ///< Number of elements of the gradient.
  std::size_t rank = 0;      ///< The rank of the factors, at most the rows and columns of each
                             ///< matrix; 0 means no factors.
  /// The matrices that are sent as factors, ascending and disjoint. Everything else is sent
  /// unchanged.
  std::vector<MatrixPlace> matrices;

  /// Number of floats summed in a turn: the left factors in even turns or the right factors in odd
  /// turns, and the rest of the gradient.
  std::size_t size(std::uint64_t turn) const;
  std::size_t largest() const;
};

/// The shape of a gradient with these matrices. A matrix is sent as factors only if its factors
/// have at most half as many elements, averaged over two turns.
FactorShape factor_shape(std::size_t elements, std::span<const MatrixPlace> matrices,
                         std::size_t rank);

/// PowerSGD (Vogels, Karimireddy and Jaggi 2019) with one sum in a step, as in the authors' later
/// code: the two halves of a power iteration take turns. For every matrix G of a gradient, with its
/// memory e and M = G + e,
///
///   even turns   P_i = M V    mean of P_i   out = P V^T   e = M - P_i V^T   next U = orth(P)
///   odd turns    Q_i = M^T U  mean of Q_i   out = U Q^T   e = M - U Q_i^T   next V = orth(Q)
///
/// so (rows or cols) * rank floats are sent instead of rows * cols. The memory e is the part of M
/// that this peer's own factor does not represent. It therefore depends only on the peer's own data
/// and the shared basis, and mean(e) = mean(M) - out. A matrix whose true rank is at most `rank` is
/// sent completely in two turns, an even one and the next. Loops run in a fixed order, so equal
/// means give equal bits on all machines. Pure.
class PowerSgd {
 public:
  /// Identifies a sum by its generation and the number of earlier sums in that generation. The
  /// first sum of a generation draws a new basis, so peers that join need none.
  struct Turn {
    std::uint64_t generation = 0;
    std::uint64_t number = 0;
  };

  explicit PowerSgd(FactorShape shape);

  const FactorShape& shape() const { return shape_; }

  /// Writes our part of the sum for a turn: shape().size(turn.number) floats. It may be called
  /// again before the mean has arrived, with another gradient or for another turn. The new call
  /// then replaces the earlier one. Within a generation turns follow each other without gaps.
  void encode(std::span<const float> gradient, Turn turn, std::span<float> out);

  /// Computes the gradient that the mean of all parts represents. Keeps the part of our gradient
  /// that was not sent.
  void decode(std::span<const float> mean, std::span<float> gradient);

  /// Our part as last encoded.
  std::span<const float> part() const { return part_; }
  /// The memory e of all matrices at their places, and zeros elsewhere. Empty if nothing is kept.
  std::span<const float> memory() const { return memory_; }
  /// Restores the memory from a checkpoint. Ignores a memory of another size.
  void restore(std::vector<float> memory);
  /// Drops the memory, because the model was replaced or the units of gradients changed.
  void clear();

 private:
  template <class Matrix, class Rest>
  void walk(const Matrix& matrix, const Rest& rest) const;
  std::size_t factor_size(const MatrixPlace& place) const;

  FactorShape shape_;
  Turn turn_;
  std::vector<float> memory_;  ///< The memory e. Empty if nothing is kept.
  std::vector<float> given_;   ///< M in the places of the matrices, and the gradient itself
                               ///< elsewhere.
  std::vector<float> part_;    ///< Our part as last encoded.
  std::vector<std::vector<float>> bases_;  ///< V or U for every matrix, column by column.
};

/// Makes `rank` columns orthonormal, one after another (modified Gram-Schmidt, twice). The columns
/// are stored one after another. A column that lies in the span of earlier ones, up to 1e-6 of its
/// norm, is replaced by a random one. A column must have at least `rank` elements.
void orthonormalise(std::span<float> columns, std::size_t rank, Rng& rng);

}  // namespace gv
