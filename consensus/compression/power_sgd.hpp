// Gradients whose matrices travel as thin factors, which a ring can sum.
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

/// Which parts of a gradient travel as factors of a rank, and so how long what travels is.
struct FactorShape {
  std::size_t elements = 0;  ///< Of the gradient.
  std::size_t rank = 0;      ///< 0: all travels as it is. Else no more than rows and columns.
  std::vector<MatrixPlace> matrices;  ///< Ascending and disjoint. The rest travels as it is.

  /// Floats of what is summed in the turn of that number: left factors in even ones, right ones in
  /// odd ones.
  std::size_t size(std::uint64_t turn) const;
  std::size_t largest() const;
};

/// PowerSGD (Vogels, Karimireddy and Jaggi 2019) with one sum a step, as its authors' later code
/// has it: steps of the power iteration take turns. For every matrix, with M = G + e,
///
///   even turns   P_i = M V    mean of P_i   out = P V^T   e = M - P_i V^T   next U = orth(P)
///   odd turns    Q_i = M^T U  mean of Q_i   out = U Q^T   e = M - U Q_i^T   next V = orth(Q)
///
/// so that rows or cols times rank floats travel, and not rows times cols. The memory takes off
/// what this peer's own factor stands for, so it is a function of its own data and of the shared
/// basis, and mean(e) = mean(M) - out. Of a matrix of no larger rank that is sent in an even turn
/// and in the one after it, nothing is left. Loops run in one order, so equal means give equal bits
/// on all machines. Pure.
class PowerSgd {
 public:
  /// A sum that everybody makes: the generation it is made in, and how many were made there before.
  /// The first draws the basis anew, so that who joins then needs none.
  struct Turn {
    std::uint64_t generation = 0;
    std::uint64_t number = 0;
  };

  explicit PowerSgd(FactorShape shape);

  const FactorShape& shape() const { return shape_; }

  /// Our part of the sum of that turn, shape().size(turn.number) floats. It may be asked for again,
  /// with another gradient or for another turn, before its mean has come: then it is as if it had
  /// not been asked for before. A turn after the first follows the one before it.
  void encode(std::span<const float> gradient, Turn turn, std::span<float> out);

  /// The gradient that the mean of all parts stands for. Keeps what of ours was not in our part.
  void decode(std::span<const float> mean, std::span<float> gradient);

  /// Ours, as it was encoded last.
  std::span<const float> part() const { return part_; }
  /// e of all matrices at their places, zeros elsewhere. Empty: nothing is kept.
  std::span<const float> memory() const { return memory_; }
  /// From a checkpoint; of another size it is ignored.
  void restore(std::vector<float> memory);
  /// The model is another's, or gradients are in other units: nothing that is kept belongs to it.
  void clear();

 private:
  template <class Matrix, class Rest>
  void walk(const Matrix& matrix, const Rest& rest) const;
  std::size_t factor_size(const MatrixPlace& place) const;

  FactorShape shape_;
  Turn turn_;
  std::vector<float> memory_;              ///< e.
  std::vector<float> given_;               ///< M, or what travels as it is.
  std::vector<float> part_;                ///< Ours, as it was encoded.
  std::vector<std::vector<float>> bases_;  ///< V or U of every matrix, column by column.
};

/// Makes so many columns, one behind the other, orthonormal in their order (modified Gram-Schmidt,
/// twice). Those that depend on the ones before them, up to 1e-6 of their norm, are replaced by
/// drawn ones. No more columns than they are long.
void orthonormalise(std::span<float> columns, std::size_t rank, Rng& rng);

}  // namespace gv
