// Deep gradient compression: momentum for gradients of which most values are sent later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "consensus/codec/sparse_vector.hpp"

namespace gv {

struct DgcOptions {
  double momentum = 0.9;  ///< mu, in [0, 1).
  bool nesterov = false;
  std::size_t block = 0;  ///< Elements in a block, each of which sends a share; 0: one block.
  /// A gradient of larger norm is first scaled down to this norm; 0: never. To limit the sum of n
  /// peers, give each 1 / sqrt(n) of that limit (Lin 2018, section 3.2).
  double norm_max = 0;
};

/// Chooses what one peer sends of its gradients and keeps the rest (Lin et al. 2018, section 3):
///
///   u <- mu u + g;  v <- v + u                     or Nesterov:  u <- mu (u + g);  v <- v + u + g
///   send the largest of v;  where they were, v = 0 (they are sent) and u = 0 (factor masking)
///
/// Momentum must come before the selection, because momentum after it would miss values that are
/// sent late. The values sent are the update itself, to be averaged and applied without momentum.
/// Masking keeps u from pushing further where it was just sent after a long wait. With a share of 1
/// nothing waits, so nothing is masked, and this is SGD with momentum, bit for bit. Pure; keeps two
/// vectors.
class Dgc {
 public:
  Dgc(const DgcOptions& options, std::size_t elements);

  /// Takes a gradient and returns the values to be sent: from each block the ceil(share * block)
  /// largest by magnitude, of equal ones the first, and never zeros. The result is dense if
  /// `share`, in (0, 1], is 1. The gradient is finite and has the size given at construction.
  SparseVector step(std::span<const float> gradient, double share);

  /// Adds to v what a codec lost: `exact` is the result of the last step(), and `sent` the same
  /// after encoding and decoding.
  void keep_error(const SparseVector& exact, const SparseVector& sent) {
    gv::keep_error(exact, sent, waiting_);
  }

  const DgcOptions& options() const { return options_; }

  /// Restores kept vectors. One of another size than the gradient counts as empty.
  void restore(std::span<const float> momentum, std::span<const float> waiting);

  /// u and v. Without masking, all values sent plus v add up to all values u ever had.
  std::span<const float> momentum() const { return momentum_; }
  std::span<const float> waiting() const { return waiting_; }

 private:
  DgcOptions options_;
  std::vector<float> momentum_;
  std::vector<float> waiting_;
  std::vector<float> update_;  ///< The increment of v in a step.
};

/// The share in an epoch, counted from 0. It falls from last^(1/(w + 1)) by equal factors to `last`
/// after w epochs: 32 %, 10 %, 3 %, 1 %, 0.3 % and then 0.1 % by default (as in the authors' code;
/// the paper begins with 25 %).
double dgc_share(std::uint64_t epoch, double last = 0.001, std::uint64_t warm_up_epochs = 5);

}  // namespace gv
