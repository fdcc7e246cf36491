// Computes attacks. The formulas need only a mean, a deviation and a quantile.
#include "sim/attacks.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "base/check.hpp"

namespace gv {
namespace {

constexpr double lying_factor = 1000;

/// The x with P(N(0, 1) <= x) = probability, by bisection of [0, 40]. Only for probabilities of at
/// least 1/2.
double normal_quantile(double probability) {
  double below = 0;
  double above = 40;
  for (int step = 0; step < 60; ++step) {
    const double middle = (below + above) / 2;
    const double reached = 1 - std::erfc(middle / std::numbers::sqrt2) / 2;
    (reached < probability ? below : above) = middle;
  }
  return below;
}

std::vector<double> mean_of(std::span<const NeighbourModel> models, std::size_t size) {
  check(!models.empty(), "an attack on the mean has seen models");
  std::vector<double> mean(size);
  for (const NeighbourModel& model : models) {
    for (std::size_t i = 0; i < size; ++i) mean[i] += model.values[i];
  }
  for (double& value : mean) value /= static_cast<double>(models.size());
  return mean;
}

/// mu - s sigma, with the honest models' mean mu and standard deviation sigma. With a single model,
/// sigma is 0.
std::vector<float> little_is_enough(const AttackView& view, double s) {
  const std::vector<double> mean = mean_of(view.honest, view.own.size());
  const double others = std::max<double>(1, static_cast<double>(view.honest.size()) - 1);
  std::vector<float> sent(mean.size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    double squares = 0;
    for (const NeighbourModel& model : view.honest) {
      squares += (model.values[i] - mean[i]) * (model.values[i] - mean[i]);
    }
    sent[i] = static_cast<float>(mean[i] - s * std::sqrt(squares / others));
  }
  return sent;
}

std::vector<float> dissensus(const AttackView& view, double s) {
  check(view.hostile_weight > 0, "dissensus needs a weight of its own");
  std::vector<float> sent(view.victim.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    const double from = view.victim[i];
    double pull = 0;
    for (const NeighbourModel& model : view.honest) pull += model.weight * (model.values[i] - from);
    sent[i] = static_cast<float>(from - s * pull / view.hostile_weight);
  }
  return sent;
}

/// mu + s (x - mu), with our model x and the honest models' mean mu: scales up what the peer
/// learned from its data, so that it is not lost in a mean over many peers (model replacement,
/// Bagdasaryan 2020).
std::vector<float> boosted(const AttackView& view, double s) {
  const std::vector<double> mean = mean_of(view.honest, view.own.size());
  std::vector<float> sent(mean.size());
  for (std::size_t i = 0; i < mean.size(); ++i) {
    sent[i] = static_cast<float>(mean[i] + s * (view.own[i] - mean[i]));
  }
  return sent;
}

std::vector<float> scaled(std::span<const float> values, double factor) {
  std::vector<float> sent;
  for (const float value : values) sent.push_back(static_cast<float>(factor * value));
  return sent;
}

}  // namespace

bool has_strength(AttackKind kind) {
  return kind != AttackKind::honest && kind != AttackKind::bit_flip &&
         kind != AttackKind::not_a_number;
}

double little_is_enough_z(std::size_t peers, std::size_t hostile) {
  check(hostile < peers, "somebody is honest");
  const auto honest = static_cast<double>(peers - hostile);
  const auto supporters = static_cast<double>(peers / 2 + 1) - static_cast<double>(hostile);
  const double share = std::min(honest - supporters, honest - 0.5) / honest;
  return share > 0.5 ? normal_quantile(share) : 0;
}

double published_strength(AttackKind kind, const AttackView& view) {
  switch (kind) {
    case AttackKind::scale:
      return 100;
    case AttackKind::little_is_enough:
      return little_is_enough_z(view.honest.size() + view.hostile, view.hostile);
    case AttackKind::inner_product:
      return 0.1;
    case AttackKind::dissensus:
      return 1.5;
    case AttackKind::lying_weight:
      return lying_factor;
    default:
      return 1;
  }
}

std::vector<float> attacked(AttackKind kind, const AttackView& view,
                            std::optional<double> strength) {
  const double s = strength ? *strength : published_strength(kind, view);
  std::vector<float> own(view.own.begin(), view.own.end());
  switch (kind) {
    case AttackKind::honest:
    case AttackKind::lying_weight:
      return own;
    case AttackKind::bit_flip:
      return scaled(own, -1);
    case AttackKind::scale:
      return scaled(own, s);
    case AttackKind::little_is_enough:
      return little_is_enough(view, s);
    case AttackKind::inner_product: {
      const std::vector<double> mean = mean_of(view.honest, own.size());
      for (std::size_t i = 0; i < own.size(); ++i) own[i] = static_cast<float>(-s * mean[i]);
      return own;
    }
    case AttackKind::dissensus:
      return dissensus(view, s);
    case AttackKind::label_flip:
      return s == 1 ? own : boosted(view, s);
    case AttackKind::not_a_number:
      if (!own.empty()) own[own.size() / 2] = std::numeric_limits<float>::quiet_NaN();
      return own;
  }
  return own;
}

double attacked_weight(AttackKind kind, double weight, std::optional<double> strength) {
  return kind == AttackKind::lying_weight ? weight * strength.value_or(lying_factor) : weight;
}

}  // namespace gv
