// Robust aggregation. Most rules reduce to weights and scales of whole models; only the trimmed
// mean and the median work by coordinate.
#include "consensus/mixing/robust.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "base/check.hpp"
#include "base/comparison.hpp"
#include "base/magnitude.hpp"
#include "base/wide.hpp"

namespace gv {
namespace {

constexpr int weiszfeld_steps = 8;
constexpr double smoothing = 0.1;

/// One model's contribution to a change: weight * (scale * model - own).
struct Pull {
  std::span<const float> model;
  double weight = 0;
  double scale = 1;
};

GV_WIDE void add_pull(const float* __restrict model, const float* __restrict own, std::size_t n,
                      double weight, double scale, double* __restrict sums) {
  for (std::size_t i = 0; i < n; ++i) {
    sums[i] += weight * (scale * static_cast<double>(model[i]) - static_cast<double>(own[i]));
  }
}

/// Sums all pulls in double precision, in pieces that fit the cache.
void sum_pulls(std::span<const Pull> pulls, std::span<const float> own, std::span<float> change) {
  std::array<double, 1024> sums;
  for (std::size_t at = 0; at < own.size(); at += sums.size()) {
    const std::size_t n = std::min(sums.size(), own.size() - at);
    sums.fill(0);
    for (const Pull& pull : pulls) {
      add_pull(pull.model.data() + at, own.data() + at, n, pull.weight, pull.scale, sums.data());
    }
    for (std::size_t i = 0; i < n; ++i) change[at + i] = static_cast<float>(sums[i]);
  }
}

/// Norms and distance of two models. The difference is written to `scratch`.
Comparison compared(std::span<const float> theirs, std::span<const float> ours,
                    std::span<float> scratch) {
  Comparison comparison;
  comparison.add(theirs, ours, scratch);
  return comparison;
}

/// The (hostile + 1)-th largest length, or the smallest if there are fewer lengths than that.
double adaptive_radius(std::vector<double> lengths, std::size_t hostile) {
  std::ranges::sort(lengths, std::greater<>());
  return lengths[std::min(hostile, lengths.size() - 1)];
}

bool has_adaptive_radius(const GuardOptions& options) {
  const bool clips =
      options.kind == GuardKind::self_centred_clip || options.kind == GuardKind::centred_clip;
  return clips && options.radius == 0;
}

/// The factor that shortens a vector of this length to the radius: min(1, radius / length).
double clipped(double radius, double length) { return length <= radius ? 1 : radius / length; }

/// Indices of the inputs that a guard weakens or leaves out.
using Indices = std::vector<std::size_t>;

/// Implements self_centred_clip and centred_clip. Returns the indices of clipped models. With
/// centred_clip, each of the k inputs has the weight 1/k.
Indices clip_distances(const GuardOptions& options, std::span<const float> own,
                       std::span<const NeighbourModel> others, std::span<float> change) {
  std::vector<double> distances;
  for (const NeighbourModel& other : others) {
    distances.push_back(compared(other.values, own, change).distance());
  }
  const double radius =
      options.radius > 0 ? options.radius : adaptive_radius(distances, options.hostile);
  const double equal = 1 / static_cast<double>(others.size() + 1);
  std::vector<Pull> pulls;
  Indices held;
  for (std::size_t j = 0; j < others.size(); ++j) {
    const double weight = options.kind == GuardKind::centred_clip ? equal : others[j].weight;
    pulls.push_back({others[j].values, weight * clipped(radius, distances[j])});
    if (distances[j] > radius) held.push_back(j);
  }
  sum_pulls(pulls, own, change);
  return held;
}

/// Compares low[i] with high[i] for each i. Puts the smaller into `low` and the larger into `high`.
GV_WIDE void order_rows(float* __restrict low, float* __restrict high, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) {
    const float a = low[i];
    const float b = high[i];
    low[i] = a < b ? a : b;
    high[i] = a < b ? b : a;
  }
}

/// Moves each coordinate to the mean without the `dropped` largest and `dropped` smallest values.
/// Coordinates are sorted side by side (odd-even transposition) in k^2 / 2 vector operations for k
/// inputs. With ten inputs, sorting each coordinate by itself would take ten times as long as this.
void trimmed_mean(std::size_t dropped, std::span<const float> own,
                  std::span<const NeighbourModel> others, std::span<float> change) {
  constexpr std::size_t width = 256;
  const std::size_t k = others.size() + 1;
  std::vector<std::array<float, width>> rows(k);
  std::array<double, width> sums;
  const double share = 1 / static_cast<double>(k - 2 * dropped);
  for (std::size_t at = 0; at < own.size(); at += width) {
    const std::size_t n = std::min(width, own.size() - at);
    for (std::size_t j = 0; j < k; ++j) {
      const std::span<const float> model = j == 0 ? own : others[j - 1].values;
      std::ranges::copy(model.subspan(at, n), rows[j].begin());
    }
    for (std::size_t pass = 0; pass < k; ++pass) {
      for (std::size_t j = pass % 2; j + 1 < k; j += 2) {
        order_rows(rows[j].data(), rows[j + 1].data(), n);
      }
    }
    sums.fill(0);
    for (std::size_t j = dropped; j < k - dropped; ++j) {
      add_pull(rows[j].data(), own.data() + at, n, share, 1, sums.data());
    }
    for (std::size_t i = 0; i < n; ++i) change[at + i] = static_cast<float>(sums[i]);
  }
}

/// Index in `inputs` of the input with the smallest sum of squared distances to its k - f - 2
/// nearest inputs, where k counts the inputs and f is `hostile`. On a tie, our own input (the
/// first) wins, or else the input whose values come first in lexicographical order. So the order of
/// neighbours does not matter.
std::size_t krum(std::size_t hostile, std::span<const std::span<const float>> inputs,
                 std::span<float> scratch) {
  const std::size_t k = inputs.size();
  std::vector<double> squares(k * k, 0);
  for (std::size_t a = 0; a < k; ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      const double distance = compared(inputs[a], inputs[b], scratch).distance();
      squares[a * k + b] = squares[b * k + a] = distance * distance;
    }
  }
  std::size_t best = 0;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t a = 0; a < k; ++a) {
    const auto row = std::span(squares).subspan(a * k, k);
    std::ranges::sort(row);  // The distance to itself, zero, comes first.
    const auto nearest = row.subspan(1, k - hostile - 2);
    const double score = std::accumulate(nearest.begin(), nearest.end(), 0.0);
    const bool is_smaller =
        best != 0 && std::ranges::lexicographical_compare(inputs[a], inputs[best]);
    if (score < least || (score == least && is_smaller)) {
      best = a;
      least = score;
    }
  }
  return best;
}

Indices follow_krum(std::size_t hostile, std::span<const float> own,
                    std::span<const NeighbourModel> others, std::span<float> change) {
  std::vector<std::span<const float>> inputs = {own};
  for (const NeighbourModel& other : others) inputs.push_back(other.values);
  const std::size_t followed = krum(hostile, inputs, change);
  const std::array pull = {Pull{inputs[followed], 1}};
  sum_pulls(pull, own, change);
  Indices held;
  for (std::size_t j = 0; j < others.size(); ++j) {
    if (j + 1 != followed) held.push_back(j);
  }
  return held;
}

/// Weiszfeld's method: repeated means with weights 1 / max(nu, distance from the previous mean). It
/// starts from the coordinate-wise median. Our own model would be a bad start: its distance of 0
/// would give it so large a weight that the mean would hardly move away from it.
void geometric_median(std::span<const float> own, std::span<const NeighbourModel> others,
                      std::span<float> change) {
  std::vector<float> median(own.size());
  std::vector<float> scratch(own.size());
  trimmed_mean(others.size() / 2, own, others, change);
  std::vector<Pull> pulls(others.size());
  const auto weight_of = [&](std::span<const float> model) {
    return 1 / std::max(smoothing, compared(model, median, scratch).distance());
  };
  for (int step = 0; step < weiszfeld_steps; ++step) {
    for (std::size_t i = 0; i < own.size(); ++i) median[i] = own[i] + change[i];
    double sum = weight_of(own);
    for (std::size_t j = 0; j < others.size(); ++j) {
      pulls[j] = {others[j].values, weight_of(others[j].values)};
      sum += pulls[j].weight;
    }
    for (Pull& pull : pulls) pull.weight /= sum;
    sum_pulls(pulls, own, change);
  }
}

Indices aggregated(const GuardOptions& options, std::span<const float> own,
                   std::span<const NeighbourModel> others, std::span<float> change) {
  switch (options.kind) {
    case GuardKind::none: {
      std::vector<Pull> pulls;
      for (const NeighbourModel& other : others) pulls.push_back({other.values, other.weight});
      sum_pulls(pulls, own, change);
      return {};
    }
    case GuardKind::self_centred_clip:
    case GuardKind::centred_clip:
      return clip_distances(options, own, others, change);
    case GuardKind::trimmed_mean:
      trimmed_mean(options.hostile, own, others, change);
      return {};
    case GuardKind::median:
      trimmed_mean(others.size() / 2, own, others, change);
      return {};
    case GuardKind::krum:
      return follow_krum(options.hostile, own, others, change);
    case GuardKind::geometric_median:
      geometric_median(own, others, change);
      return {};
  }
  return {};
}

}  // namespace

std::string_view to_string(GuardKind kind) {
  switch (kind) {
    case GuardKind::none:
      return "none";
    case GuardKind::self_centred_clip:
      return "self_centred_clip";
    case GuardKind::trimmed_mean:
      return "trimmed_mean";
    case GuardKind::median:
      return "median";
    case GuardKind::krum:
      return "krum";
    case GuardKind::geometric_median:
      return "geometric_median";
    case GuardKind::centred_clip:
      return "centred_clip";
  }
  return "unknown";
}

/// Krum tolerates fewer hostile inputs than the other kinds.
std::size_t hostile_among(const GuardOptions& options, std::size_t inputs) {
  if (options.hostile != fewer_than_half) return options.hostile;
  const std::size_t spared = options.kind == GuardKind::krum ? 3 : 2;
  return inputs < spared + 2 ? 1 : (inputs - spared) / 2;
}

std::size_t fewest_inputs(GuardKind kind, std::size_t hostile) {
  switch (kind) {
    case GuardKind::trimmed_mean:
    case GuardKind::median:
    case GuardKind::geometric_median:
      return 2 * hostile + 1;
    case GuardKind::krum:
      return 2 * hostile + 3;
    default:
      return 1;
  }
}

std::optional<Problem> problem_of(const GuardOptions& options, std::size_t inputs) {
  const std::string name(to_string(options.kind));
  if (!(options.radius >= 0)) {
    return Problem{name, "a radius is not below 0", "take 0 for one that follows the distances"};
  }
  const std::size_t hostile = hostile_among(options, inputs);
  const std::size_t needed = fewest_inputs(options.kind, hostile);
  if (inputs >= needed) return std::nullopt;
  return Problem{name,
                 "needs " + std::to_string(needed) + " models, its own among them, to bear " +
                     std::to_string(hostile) + " hostile, and has " + std::to_string(inputs),
                 "take a topology with more neighbours, or self_centred_clip, which needs one"};
}

std::vector<std::size_t> guarded_change(const GuardOptions& options, std::span<const float> own,
                                        std::span<const NeighbourModel> others,
                                        std::span<float> change, const AbsentModels& absent) {
  check(own.size() == change.size(), "a change of every parameter");
  std::vector<NeighbourModel> sound;
  Indices places;  // For each model in `sound`, its index in `others`.
  Indices held;
  for (std::size_t j = 0; j < others.size(); ++j) {
    check(others[j].values.size() == own.size(), "models that are mixed have one size");
    if (!is_finite(others[j].values)) {
      held.push_back(j);
      continue;
    }
    sound.push_back(others[j]);
    places.push_back(j);
  }
  GuardOptions left = options;
  left.hostile = hostile_among(options, others.size() + absent.refused + absent.late + 1);
  left.hostile -= std::min(left.hostile, others.size() - sound.size() + absent.refused);
  const bool may_all_be_hostile = absent.late > 0 && sound.size() <= left.hostile;
  if (sound.empty() || sound.size() + 1 < fewest_inputs(left.kind, left.hostile) ||
      (may_all_be_hostile && has_adaptive_radius(left))) {
    std::ranges::fill(change, 0.0f);
    held.resize(others.size());
    std::iota(held.begin(), held.end(), std::size_t{0});
    return held;
  }
  for (const std::size_t j : aggregated(left, own, sound, change)) held.push_back(places[j]);
  std::ranges::sort(held);
  return held;
}

}  // namespace gv
