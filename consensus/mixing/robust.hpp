// Robust aggregation: combines several models so that a few hostile ones cannot steer the result.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/problems.hpp"

namespace gv {

/// How a peer aggregates its model x_i with the models x_j of its neighbours, of which f may be
/// hostile. The w_j are the weights in the peer's row of the mixing matrix, k = 1 + neighbours is
/// the number of inputs, tau is the radius, and clip(z, tau) = z min(1, tau / ||z||) with Euclidean
/// norms.
///
/// | kind              | x_i becomes                                    | weights | k at least |
/// |-------------------|------------------------------------------------|---------|------------|
/// | none              | x_i + sum w_j (x_j - x_i)                      | w       | 1          |
/// | self_centred_clip | x_i + sum w_j clip(x_j - x_i, tau)             | w       | 1          |
/// | trimmed_mean      | by coordinate, mean without f largest and least| equal   | 2f + 1     |
/// | median            | by coordinate, mean of lower and upper median  | equal   | 2f + 1     |
/// | krum              | the input nearest to its k - f - 2 nearest     | equal   | 2f + 3     |
/// | geometric_median  | argmin sum ||z - x_j||, smoothed               | equal   | 2f + 1     |
/// | centred_clip      | x_i + (1/k) sum clip(x_j - x_i, tau)           | equal   | 1          |
///
/// With a single neighbour, only the clips help, and only with a fixed radius. Clipping around zero
/// would not help, because a hostile model whose norm is no larger than an honest one's would pass.
/// Costs for models of d values: one pass over all inputs; two for the clips; k^2 / 2 orderings of
/// d numbers for the coordinate-wise rules; k^2 / 2 distances for Krum. The geometric median takes
/// a median and 16 passes, and memory for two models. All others take almost no memory.
enum class GuardKind : std::uint8_t {
  none,
  /// ClippedGossip (He, Karimireddy and Jaggi 2022): limits distances from our own model. Leaves
  /// the mean of all models unchanged if both ends of an edge use the same radius.
  self_centred_clip,
  trimmed_mean,  ///< Drops the largest and smallest values (Yin 2018).
  median,        ///< The trimmed mean that drops as many values as possible (Yin 2018).
  /// Blanchard 2017, with sums of squared distances as scores. On a tie, our own model wins, or
  /// else the model whose values come first in lexicographical order.
  krum,
  /// RFA (Pillutla 2022): 8 Weiszfeld iterations from the coordinate-wise median. Distances below
  /// nu = 0.1 count as nu.
  geometric_median,
  centred_clip,  ///< Karimireddy 2021: one iteration that starts from our own model.
};

inline constexpr std::array guard_kinds = {
    GuardKind::none, GuardKind::self_centred_clip, GuardKind::trimmed_mean, GuardKind::median,
    GuardKind::krum, GuardKind::geometric_median,  GuardKind::centred_clip};

/// The name used in configs, for example "trimmed_mean".
std::string_view to_string(GuardKind kind);

/// As GuardOptions::hostile, this value means the largest integer below half the number of
/// neighbours, and at least one. A config that uses it need not know the number of neighbours.
inline constexpr std::size_t fewer_than_half = std::numeric_limits<std::size_t>::max();

/// A guard's kind and parameters.
struct GuardOptions {
  GuardKind kind = GuardKind::none;
  /// The tau of the clips, in the units of the models. If it is 0, the radius adapts to each round:
  /// it is the (f + 1)-th largest distance of a neighbour from us (He 2022). At least one honest
  /// neighbour is then at least that far away. With f neighbours or fewer, it is the smallest
  /// distance, which does not limit a single neighbour.
  double radius = 0;
  /// f, the number of inputs that may be hostile.
  std::size_t hostile = fewer_than_half;

  friend bool operator==(const GuardOptions&, const GuardOptions&) = default;
};

/// A received model and its weight in our row of the mixing matrix. Weights are finite, at least 0,
/// and add up to at most 1. We choose the weight, and the neighbour cannot affect it.
struct NeighbourModel {
  std::span<const float> values;
  double weight = 0;
};

/// Numbers of neighbours that provided no usable model in a round.
struct AbsentModels {
  std::size_t refused = 0;  ///< Neighbours that sent no valid model. Each counts as hostile.
  std::size_t late = 0;  ///< Neighbours from which nothing has arrived. Any of them may be honest.
};

/// The f of a round: how many of `inputs` inputs, our own model included, may be hostile.
std::size_t hostile_among(const GuardOptions& options, std::size_t inputs);

/// The smallest number of inputs, our own model included, with which this kind withstands `hostile`
/// hostile ones.
std::size_t fewest_inputs(GuardKind kind, std::size_t hostile);

/// Why these options cannot be used with `inputs` inputs, our own model included; nullopt if they
/// can.
std::optional<Problem> problem_of(const GuardOptions& options, std::size_t inputs);

/// Writes the aggregate minus our model into `change`, so own + change is the aggregate. All spans
/// have the size of `own`, whose values must be finite. `change` must not overlap any other span.
///
/// With every kind, a neighbour with a value that is not finite is left out together with its
/// weight, and counts as one of the f hostile inputs. The number f is computed as if the `absent`
/// neighbours were there, so that late honest neighbours do not lower it. The change is zero if
/// fewer inputs than fewest_inputs() are left. With an adaptive radius, it is also zero while some
/// neighbours are late and at most f models have arrived, because all of them may be hostile. Equal
/// models give exactly zero. The order of `others` affects only the rounding of sums. The
/// coordinate-wise rules and Krum give the same bits in any order.
///
/// Returns, in ascending order, the indices in `others` of models that counted less than without a
/// guard, or not at all. The coordinate-wise rules and the geometric median use a little of every
/// model, so they report only models that are not finite.
std::vector<std::size_t> guarded_change(const GuardOptions& options, std::span<const float> own,
                                        std::span<const NeighbourModel> others,
                                        std::span<float> change, const AbsentModels& absent = {});

}  // namespace gv
