// PowerSGD: a gradient's matrices travel as low-rank factors, which a ring can sum.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/rng.hpp"

namespace gv {

/// A matrix in a gradient: rows x cols floats from `begin` on, row after row.
struct MatrixPlace {
  std::size_t begin = 0;
  std::size_t rows = 1;
  std::size_t cols = 1;
};

/// Which parts of a gradient travel as factors, and of which rank.
struct FactorShape {
  std::size_t elements = 0;  ///< Of the gradient.
  std::size_t rank = 0;      ///< At most the rows and columns of each matrix; 0: no factors.
  std::vector<MatrixPlace> matrices;  ///< Ascending and disjoint. The rest travels unchanged.

  /// Number of floats to sum in a turn: left factors in even turns, right ones in odd turns, and
  /// the rest of the gradient.
  std::size_t size(std::uint64_t turn) const;
  std::size_t largest() const;
};

/// The shape of a gradient with these matrices, of which those travel as factors that are then at
/// most half as large, in the mean of two turns.
FactorShape factor_shape(std::size_t elements, std::span<const MatrixPlace> matrices,
                         std::size_t rank);

/// PowerSGD (Vogels, Karimireddy and Jaggi 2019) with one sum a step, as in its authors' later
/// code: the two halves of a power iteration take turns. For every matrix, with M = G + e,
///
///   even turns   P_i = M V    mean of P_i   out = P V^T   e = M - P_i V^T   next U = orth(P)
///   odd turns    Q_i = M^T U  mean of Q_i   out = U Q^T   e = M - U Q_i^T   next V = orth(Q)
///
/// so that rows or cols times rank floats travel instead of rows times cols. The memory e subtracts
/// the product of this peer's own factor, so it depends only on its own data and the shared basis,
/// and mean(e) = mean(M) - out. A matrix of at most that rank is sent completely by an even turn
/// and the turn after it. Loops run in a fixed order, so equal means give equal bits on all
/// machines. Pure.
class PowerSgd {
 public:
  /// Names a sum: the generation it is made in, and the number of sums made there before. The first
  /// draws a new basis, so that peers that join then need none.
  struct Turn {
    std::uint64_t generation = 0;
    std::uint64_t number = 0;
  };

  explicit PowerSgd(FactorShape shape);

  const FactorShape& shape() const { return shape_; }

  /// Writes our part of the sum of that turn, shape().size(turn.number) floats. It may be asked for
  /// again before the mean has come, with another gradient or for another turn, as if it had not
  /// been asked for before. Every turn but a generation's first follows the one before it.
  void encode(std::span<const float> gradient, Turn turn, std::span<float> out);

  /// The gradient that the mean of all parts stands for. Keeps what our part left out of ours.
  void decode(std::span<const float> mean, std::span<float> gradient);

  /// Our part, as it was last encoded.
  std::span<const float> part() const { return part_; }
  /// e of all matrices at their places, zeros elsewhere. Empty: nothing is kept.
  std::span<const float> memory() const { return memory_; }
  /// Restores the memory from a checkpoint; one of another size is ignored.
  void restore(std::vector<float> memory);
  /// Drops the memory, because the model was replaced or gradients are in other units now.
  void clear();

 private:
  template <class Matrix, class Rest>
  void walk(const Matrix& matrix, const Rest& rest) const;
  std::size_t factor_size(const MatrixPlace& place) const;

  FactorShape shape_;
  Turn turn_;
  std::vector<float> memory_;              ///< e.
  std::vector<float> given_;               ///< M of the matrices; elsewhere the gradient itself.
  std::vector<float> part_;                ///< Our part, as it was encoded.
  std::vector<std::vector<float>> bases_;  ///< V or U of every matrix, column by column.
};

/// Makes `rank` columns, stored one behind the other, orthonormal in their order (modified
/// Gram-Schmidt, twice). A column that depends on the ones before it, up to 1e-6 of its norm, is
/// replaced by a drawn one. A column must have at least `rank` elements.
void orthonormalise(std::span<float> columns, std::size_t rank, Rng& rng);

}  // namespace gv
