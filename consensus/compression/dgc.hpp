// Momentum for gradients of which most is sent later: deep gradient compression.
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
  std::size_t block = 0;  ///< Elements of which a share is taken, as in Top16; 0: all of them.
  /// A longer gradient is shortened to this norm before anything else; 0: none is. A limit for the
  /// sum of n peers is a limit of 1 / sqrt(n) of it for each (Lin 2018, section 3.2).
  double norm_max = 0;
};

/// What one peer sends of its gradients, and what it keeps for later (Lin et al. 2018, section 3):
///
///   u <- mu u + g;  v <- v + u                     or Nesterov:  u <- mu (u + g);  v <- v + u + g
///   send the largest of v;  where they were, v = 0 (they are sent) and u = 0 (factor masking)
///
/// Momentum belongs before the selection: of what is sent late, later momentum would not know. What
/// is sent is the update itself, to be averaged and applied without momentum. Masking keeps u from
/// pushing on where it was just sent after a long wait. With a share of 1 nothing waits, so nothing
/// is masked: then this is SGD with momentum, bit for bit. Pure; two vectors of memory.
class Dgc {
 public:
  Dgc(const DgcOptions& options, std::size_t elements);

  /// Takes a gradient and gives what is to be sent: of each block the ceil(share * block) largest
  /// by magnitude, zeros never, and of equal ones the first; dense with a share of 1. `share` is in
  /// (0, 1]. The gradient has the size given at construction and is finite.
  SparseVector step(std::span<const float> gradient, double share);

  /// Puts into v what a codec lost: `sent` is what `exact`, the last step's, was after encoding and
  /// decoding.
  void keep_error(const SparseVector& exact, const SparseVector& sent) {
    gv::keep_error(exact, sent, waiting_);
  }

  const DgcOptions& options() const { return options_; }

  /// As another was that has kept this; what has another size than gradients counts as none.
  void restore(std::span<const float> momentum, std::span<const float> waiting);

  /// u and v. What was sent and what waits are, without masking, all that ever was in u.
  std::span<const float> momentum() const { return momentum_; }
  std::span<const float> waiting() const { return waiting_; }

 private:
  DgcOptions options_;
  std::vector<float> momentum_;
  std::vector<float> waiting_;
  std::vector<float> update_;  ///< What v grows by in a step.
};

/// The share in an epoch from 0 on: falls from last^(1/(w + 1)) by equal factors until it is `last`
/// after w epochs, as 32 %, 10 %, 3 %, 1 %, 0.3 % and then 0.1 % (the authors' code; in the paper
/// it begins with 25 %).
double dgc_share(std::uint64_t epoch, double last = 0.001, std::uint64_t warm_up_epochs = 5);

}  // namespace gv
