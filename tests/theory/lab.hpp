// Peers that mix in lockstep, without links or clocks between them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "consensus/mixing/mixer.hpp"

namespace gv::theory {

using Vector = std::vector<double>;

/// `peers` models of `elements` normally distributed values each.
std::vector<Vector> drawn_models(std::size_t peers, std::size_t elements, std::uint64_t seed);

/// The ids of the peers, in the order of their ranks.
std::vector<PeerId> order_of(std::size_t peers);

double mean_of(const Vector& x);

/// The scatter, sum (x_i - mean)^2.
double scatter(const Vector& x);

/// n peers in one generation, each with its Mixer. They run round after round: local steps of plain
/// gradient descent, messages, mixing. Uses doubles, so that results can be compared with closed
/// forms.
class Lab {
 public:
  /// A peer's gradient for one element.
  using Gradient = std::function<double(std::size_t peer, std::size_t element, double x)>;

  Lab(const MixRule& rule, std::vector<Vector> models, std::uint64_t seed = 1);

  void round(const Gradient& gradient = {}, double learning_rate = 0);
  void rounds(std::size_t count, const Gradient& gradient = {}, double learning_rate = 0);

  Vector mean() const;
  /// The squared spread, (1/n) sum ||x_i - mean||^2.
  double spread_squared() const;
  /// Subtracts the mean and scales the spread to 1. Returns the logarithm of spread_squared()
  /// before the change. Only for rules that keep nothing but the models.
  double rescale();

  std::vector<Vector>& models() { return models_; }
  std::vector<Mixer<double>>& mixers() { return mixers_; }

 private:
  MixRule rule_;
  std::vector<Vector> models_;
  std::vector<Mixer<double>> mixers_;
  std::uint64_t round_ = 0;
};

}  // namespace gv::theory
