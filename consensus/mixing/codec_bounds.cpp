// Computes the bounds from the weights of one round and the usual loss of the codec.
#include "consensus/mixing/codec_bounds.hpp"

#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.hpp"
#include "consensus/mixing/round_plan.hpp"
#include "consensus/topology/topology.hpp"

namespace gv {
namespace {

/// The model size, in values, for which losses are computed. Codecs that work in buckets fill two
/// buckets with it.
constexpr std::size_t usual_elements = 1024;

/// The weights W of the first round. Empty if peers draw their partners.
Mixing weights_of(const MixRule& rule, std::size_t peers) {
  if (rule.partners != Partners::neighbours) return {};
  return RoundPlan(rule, peers, 0).round(0);
}

/// The mean eigenvalue of I - W, where W holds the weights. It is the mean of 1 - w_ii.
double mean_pull(const Mixing& mixing) {
  if (mixing.empty()) return 0.5;  // With pairs, half of I - W's eigenvalues are 0 and half are 1.
  double sum = 0;
  for (std::size_t i = 0; i < mixing.size(); ++i) sum += 1 - own_share(mixing, i);
  return sum / static_cast<double>(mixing.size());
}

/// The largest eigenvalue of I - W, where W holds the weights, by power iteration.
double largest_pull(const Mixing& mixing) {
  if (mixing.empty()) return 1;
  constexpr int iterations = 100;
  Rng rng(1);
  std::vector<double> x(mixing.size());
  for (double& value : x) value = rng.normal();
  double growth = 0;
  for (int i = 0; i < iterations; ++i) {
    std::vector<double> next(x.size(), 0);
    double before = 0;
    double after = 0;
    for (std::size_t row = 0; row < x.size(); ++row) {
      for (const Share& share : mixing[row]) next[row] += share.weight * (x[row] - x[share.from]);
      before += x[row] * x[row];
      after += next[row] * next[row];
    }
    if (after == 0) return 0;
    growth = std::sqrt(after / before);
    // Without this, the values would become vanishingly small in a graph with small weights.
    for (double& value : next) value /= growth;
    x = std::move(next);
  }
  return growth;
}

}  // namespace

double largest_pull(const MixRule& rule, std::size_t peers) {
  return largest_pull(weights_of(rule, peers));
}

double largest_gamma(const MixRule& rule, std::size_t peers) {
  const double pull = largest_pull(rule, peers);
  if (pull == 0) return std::numeric_limits<double>::infinity();
  const double delta = usual_delta(rule.codec, usual_elements);
  return 2 * delta / ((2 - delta) * pull);
}

double safe_gamma(const MixRule& rule, std::size_t peers) { return largest_gamma(rule, peers) / 4; }

double floor_of_noise(const MixRule& rule, std::size_t peers) {
  const Mixing mixing = weights_of(rule, peers);
  const double pull = rule.gamma * largest_pull(mixing);
  if (pull == 0) return 0;
  if (pull >= 2) return std::numeric_limits<double>::infinity();
  const double omega = 1 / usual_delta(rule.codec, usual_elements) - 1;
  // An upper bound on the c of floor_of_noise() (see the header): the value that c would have if
  // every eigenvalue were either 0 or the largest one.
  const double c = rule.gamma * mean_pull(mixing) / (2 - pull);
  return omega * c < 1 ? omega * c / (1 - omega * c) : std::numeric_limits<double>::infinity();
}

}  // namespace gv
