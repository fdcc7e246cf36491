// A gradient matrix as the product of two thin ones, whose means can be summed by a ring.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "consensus/base/rng.hpp"

namespace gv {

/// PowerSGD (Vogels, Karimireddy and Jaggi 2019, algorithm 1 and 2) for one matrix of rows x cols
/// floats, row after row, at one of several peers. One step of power iteration for each gradient G,
/// begun from the Q of the step before, with two means over all peers in between:
///
///   M = G + e                  P_i = M Q               mean of P_i over peers   (rows x rank)
///   P = orthonormal(mean P)    Q_i = M^T P             mean of Q_i over peers   (cols x rank)
///   out = P Q^T with the mean  e = M - P Q_i^T         the same `out` at all peers
///
/// The memory takes off what this peer's own part of the product was, so it is a function of its
/// own data, and mean(e) = mean(M) - out; taking off `out` itself, as the first code did, keeps the
/// same mean. All that is sent is linear, (rows + cols) rank floats instead of rows cols. If the
/// rank is no less than rows or cols, `out` is the mean of M. Loops run in one order, so equal
/// means give equal bits on all machines. Vectors (biases) are better sent as they are. Pure.
class PowerSgd {
 public:
  /// All of at least 1. `rng` is the same at all peers: it draws the first Q.
  PowerSgd(std::size_t rows, std::size_t cols, std::size_t rank, Rng rng);

  /// P_i, rows x rank, for a gradient of rows x cols; valid until the next call of anything. The
  /// three calls come in turns: left, right, finish.
  std::span<const float> left(std::span<const float> gradient);

  /// Q_i, cols x rank, for the mean of all P_i.
  std::span<const float> right(std::span<const float> mean_left);

  /// Writes P Q^T, rows x cols, for the mean of all Q_i, and remembers what of M was not sent.
  void finish(std::span<const float> mean_right, std::span<float> out);

  /// e, rows x cols.
  std::span<const float> memory() const { return memory_; }

 private:
  std::size_t rows_;
  std::size_t cols_;
  std::size_t rank_;
  std::vector<float> memory_;  ///< e, and M between left and finish.
  std::vector<float> left_;    ///< P: ours, then orthonormal.
  std::vector<float> right_;   ///< Q_i.
  std::vector<float> start_;   ///< Q of the step before.
};

/// Makes the columns of a rows x rank matrix orthonormal in their order (modified Gram-Schmidt,
/// twice). Columns that depend on those before them, up to 1e-6 of their norm, become zero.
void orthonormalise(std::span<float> matrix, std::size_t rank);

}  // namespace gv
