// Deep gradient compression: momentum for gradients that are sent only in part.
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
  /// Number of elements in a block. The same fraction of each block is sent. 0 means a single
  /// block.
  std::size_t block = 0;
  /// A gradient with a larger norm is scaled down to this norm first; 0 means never. To limit the
  /// sum of n peers, give each 1 / sqrt(n) of that limit (Lin 2018, section 3.2).
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

  /// Takes a gradient and returns the values to send: from each block the ceil(share * block)
  /// largest magnitudes. On ties the smaller index wins; zeros are never sent. The result is dense
  /// if `share`, in (0, 1], is 1. The gradient must be finite and have the size given at
  /// construction.
  SparseVector step(std::span<const float> gradient, double share);

  /// Adds to v what a codec lost. `exact` must be the result of the last step(), and `sent` the
  /// same after encoding and decoding.
  void keep_error(const SparseVector& exact, const SparseVector& sent) {
    gv::keep_error(exact, sent, waiting_);
  }

  const DgcOptions& options() const { return options_; }

  /// Restores the two vectors. A vector whose size differs from the gradient's counts as empty.
  void restore(std::span<const float> momentum, std::span<const float> waiting);

  /// u and v of the formulas above. Without masking, all values sent plus v equal the sum of all u.
  std::span<const float> momentum() const { return momentum_; }
  std::span<const float> waiting() const { return waiting_; }

 private:
  DgcOptions options_;
  std::vector<float> momentum_;
  std::vector<float> waiting_;
  std::vector<float> update_;  ///< What a step adds to v.
};

/// The fraction to send in an epoch, counted from 0. It falls by equal factors from last^(1/(w +
/// 1)) to `last` in w epochs: 32 %, 10 %, 3 %, 1 %, 0.3 % and then 0.1 % by default (as in the
/// authors' code; the paper begins with 25 %).
double dgc_share(std::uint64_t epoch, double last = 0.001, std::uint64_t warm_up_epochs = 5);

}  // namespace gv
