// Estimates the gradient noise scale: the batch size above which larger batches save few steps.
#pragma once

#include <cstddef>
#include <optional>

#include "peer/modes/mode_report.hpp"
#include "peer/node/job.hpp"

namespace gv {

/// Estimates the gradient noise scale tr(S) / |G|^2 (McCandlish et al. 2018, B_simple). S is the
/// covariance of one sample's gradient, and G is the gradient of the loss over all data. The
/// expected square of a mean gradient over b samples is |G|^2 + tr(S) / b. A peer's own gradient
/// and the mean gradient of all peers differ in b, so they give two equations. Both unknowns are
/// averaged over about fifty steps before one is divided by the other, because a mean of quotients
/// would be biased. Pure.
class NoiseScale {
 public:
  /// Adds the squared lengths of one step's gradients.
  void add(const result::GradientSquares& squares);

  /// variance() is the average of tr(S), and square() is the average of |G|^2.
  double variance() const { return weight_ > 0 ? variance_ / weight_ : 0; }
  double square() const { return weight_ > 0 ? square_ / weight_ : 0; }
  /// The noise scale in samples. Nullopt in the first steps, and while noise hides the gradient.
  std::optional<double> samples() const;

  /// Adds the estimates and the batch of all peers to the report. Adds nothing before the first
  /// step.
  void add_to(ModeReport& report) const;

 private:
  double variance_ = 0;
  double square_ = 0;
  double weight_ = 0;
  std::size_t steps_ = 0;
  std::size_t batch_ = 0;  ///< Samples of all peers in the newest mean.
  std::size_t peers_ = 0;  ///< Peers in the newest mean, assuming that all have shares like ours.
};

}  // namespace gv
