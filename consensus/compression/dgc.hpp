// Deep gradient compression: momentum for gradients of which only a part is sent.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "consensus/codec/sparse_vector.hpp"

namespace gv {

struct DgcOptions {
  double momentum = 0.9;  ///< The factor mu of the formulas below, in [0, 1).
  /// Number of elements in a block. The same fraction of each block is sent. 0 means a single
  /// block.
  std::size_t block = 0;
};

/// Chooses which gradient values one peer sends, and keeps the rest (Lin et al. 2018, section 3):
///
///   u <- mu u + g;  v <- v + u
///   send the largest of v;  where they were, v = 0 (they are sent) and u = 0 (factor masking)
///
/// Momentum comes before the selection, because momentum after it would miss values that are sent
/// late. The values sent are the update itself, to be averaged and applied without momentum.
/// Masking stops u from pushing further in places whose long-delayed values were just sent. With a
/// share of 1 nothing waits, so nothing is masked, and this is SGD with momentum, bit for bit.
/// Pure; keeps two vectors.
class Dgc {
 public:
  Dgc(const DgcOptions& options, std::size_t elements);

  /// Takes a gradient and returns the values to send: from each block the ceil(share * block)
  /// largest magnitudes. On ties the smaller index wins; zeros are never sent. `share` is above 0
  /// and at most 1; if it is 1, the result is dense. The gradient must be finite and have the size
  /// given at construction.
  SparseVector step(std::span<const float> gradient, double share);

  /// Adds to v the error of a codec. `exact` must be the result of the last step(), and `sent` the
  /// same vector after encoding and decoding.
  void keep_error(const SparseVector& exact, const SparseVector& sent) {
    gv::keep_error(exact, sent, waiting_);
  }

  const DgcOptions& options() const { return options_; }

  /// Restores the two vectors. A vector whose size differs from that of the gradient counts as
  /// empty.
  void restore(std::span<const float> momentum, std::span<const float> waiting);

  /// u and v of the formulas above. Without masking, all values sent plus v equal the sum of all u.
  std::span<const float> momentum() const { return momentum_; }
  std::span<const float> waiting() const { return waiting_; }

 private:
  DgcOptions options_;
  std::vector<float> momentum_;
  std::vector<float> waiting_;
};

/// The fraction to send in an epoch; epochs count from 0. In w = `warm_up_epochs` epochs it falls
/// by equal factors from last^(1/(w+1)) to `last`. By default the fractions are 32, 10, 3, 1,
/// 0.3 and then 0.1 %, as in the authors' code (the paper begins with 25 %).
double dgc_share(std::uint64_t epoch, double last = 0.001, std::uint64_t warm_up_epochs = 5);

}  // namespace gv
