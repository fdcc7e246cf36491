// The gradient noise scale: the batch size beyond which larger batches save few steps.
#pragma once

#include <cstddef>
#include <optional>

#include "peer/modes/mode_report.hpp"
#include "peer/node/job.hpp"

namespace gv {

/// Estimates tr(S) / |G|^2 (McCandlish et al. 2018, B_simple), where S is the covariance of one
/// sample's gradient and G the gradient of the whole loss. A mean over b samples has the expected
/// square |G|^2 + tr(S) / b. A peer's own gradient and the mean gradient of all peers have
/// different b and so give two equations. Both unknowns are averaged over about fifty steps before
/// one is divided by the other, because a mean of quotients would be biased. Pure.
class NoiseScale {
 public:
  /// Adds the squared lengths of one step.
  void add(const result::GradientSquares& squares);

  /// tr(S) and |G|^2.
  double variance() const { return weight_ > 0 ? variance_ / weight_ : 0; }
  double square() const { return weight_ > 0 ? square_ / weight_ : 0; }
  /// The noise scale in samples. Unknown in the first steps, and while noise hides the gradient.
  std::optional<double> samples() const;

  /// Adds the estimates to the report, beside the batch of all peers; nothing before the first
  /// step.
  void add_to(ModeReport& report) const;

 private:
  double variance_ = 0;
  double square_ = 0;
  double weight_ = 0;
  std::size_t steps_ = 0;
  std::size_t batch_ = 0;  ///< Samples in the newest mean.
  std::size_t peers_ = 0;  ///< Peers in the newest mean, if all have shares like ours.
};

}  // namespace gv
