// Peers that mix in step, with no links and no clock between them.
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

/// Peers by rank.
std::vector<PeerId> order_of(std::size_t peers);

double mean_of(const Vector& x);

/// sum (x_i - mean)^2.
double scatter(const Vector& x);

/// n peers in one generation, each with its Mixer, round after round: local steps of plain gradient
/// descent, messages, and what is made of them. Doubles, so that closed forms can be held against
/// it.
class Lab {
 public:
  /// The gradient of a peer in one element.
  using Gradient = std::function<double(std::size_t peer, std::size_t element, double x)>;

  Lab(const MixRule& rule, std::vector<Vector> models, std::uint64_t seed = 1);

  void round(const Gradient& gradient = {}, double learning_rate = 0);
  void rounds(std::size_t count, const Gradient& gradient = {}, double learning_rate = 0);

  Vector mean() const;
  /// (1/n) sum ||x_i - mean||^2.
  double spread_squared() const;
  /// Takes the mean away and makes the spread 1; the logarithm of what spread_squared() was. For
  /// rules that keep nothing but the models.
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
