// What a peer believes of several models at once: aggregates that a few hostile ones cannot steer.
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

/// How a peer with model x_i aggregates it with x_j of its neighbours, of which f may be hostile.
/// w_j are the weights of its row, k = 1 + neighbours the inputs, tau the radius and
/// clip(z, tau) = z min(1, tau / ||z||) with Euclidean norms.
///
/// | kind              | x_i becomes                                    | weights | k at least |
/// |-------------------|------------------------------------------------|---------|------------|
/// | none              | x_i + sum w_j (x_j - x_i)                      | w       | 1          |
/// | clip              | x_i + sum w_j (clip(x_j, tau) - x_i)           | w       | 1          |
/// | self_centred_clip | x_i + sum w_j clip(x_j - x_i, tau)             | w       | 1          |
/// | trimmed_mean      | by coordinate, mean without f largest and least| equal   | 2f + 1     |
/// | median            | by coordinate, mean of lower and upper median  | equal   | 2f + 1     |
/// | krum              | the input nearest to its k - f - 2 nearest     | equal   | 2f + 3     |
/// | geometric_median  | argmin sum ||z - x_j||, smoothed               | equal   | 2f + 1     |
/// | centred_clip      | x_i + (1/k) sum clip(x_j - x_i, tau)           | equal   | 1          |
///
/// With one neighbour only the clips around our own model are of use, and only with a radius. Costs
/// for models of d values: one pass over all inputs, two for the clips, k^2 / 2 orderings of d
/// numbers for the rules by coordinate, k^2 / 2 distances for Krum; the geometric median is a
/// median and 16 passes, and takes two models of memory where all others take next to none.
enum class GuardKind : std::uint8_t {
  none,
  /// Norms of models are limited around the origin that all models share. For vectors that ought to
  /// be small, as gradients are; a whole model is not small, and a hostile one of the same norm
  /// passes.
  clip,
  /// ClippedGossip (He, Karimireddy and Jaggi 2022): distances are limited around our own model.
  /// The mean of all models stays if both ends of an edge use the same radius.
  self_centred_clip,
  trimmed_mean,  ///< Yin 2018.
  median,        ///< Yin 2018; the trimmed mean that drops most.
  krum,  ///< Blanchard 2017: scores are sums of squared distances; ties: own, then by value.
  /// RFA (Pillutla 2022): 8 steps of Weiszfeld from the median by coordinate, distances below
  /// nu = 0.1 taken as nu.
  geometric_median,
  centred_clip,  ///< Karimireddy 2021, one step; the aggregate before it is our own model.
};

inline constexpr std::array guard_kinds = {
    GuardKind::none,   GuardKind::clip, GuardKind::self_centred_clip, GuardKind::trimmed_mean,
    GuardKind::median, GuardKind::krum, GuardKind::geometric_median,  GuardKind::centred_clip};

/// The name people write, as "trimmed_mean".
std::string_view to_string(GuardKind kind);

/// The kind of that name; empty if there is none.
std::optional<GuardKind> guard_named(std::string_view name);

/// As many as are fewer than half of the neighbours, but one at least: nobody has to know how many
/// there are.
inline constexpr std::size_t fewer_than_half = std::numeric_limits<std::size_t>::max();

/// A kind with its parameters.
struct GuardOptions {
  GuardKind kind = GuardKind::none;
  /// tau of the clips, in the units of the models. 0: the (f + 1)-th largest distance of a
  /// neighbour from us in this round, so the second largest if one is hostile (He 2022); then some
  /// honest one is at least as far. Of f neighbours or fewer it is the smallest distance, which
  /// does not limit one alone. For `clip` norms stand for distances, and our own is the least
  /// radius.
  double radius = 0;
  /// f: how many of the inputs may be anything.
  std::size_t hostile = fewer_than_half;

  friend bool operator==(const GuardOptions&, const GuardOptions&) = default;
};

/// A model that was received, and its weight in our row of the mixing matrix: finite, at least 0,
/// and all together at most 1. It is ours to say, nothing that a neighbour sends.
struct NeighbourModel {
  std::span<const float> values;
  double weight = 0;
};

/// f of a round with so many inputs, our own model among them.
std::size_t hostile_among(const GuardOptions& options, std::size_t inputs);

/// The least number of inputs, our own model among them, with which the kind bears `hostile` of
/// them.
std::size_t fewest_inputs(GuardKind kind, std::size_t hostile);

/// Why these options cannot be used with so many inputs, our own model among them; empty if they
/// can.
std::optional<Problem> problem_of(const GuardOptions& options, std::size_t inputs);

/// Writes into `change` what the models of neighbours add to ours: own + change is the aggregate.
/// All have the size of `own`, which is finite; `change` is none of them.
///
/// A neighbour with a value that is not finite is left out, with its weight, whatever the kind, and
/// is one of the f. With fewer inputs left than fewest_inputs says nothing can be told: the change
/// is zero. Equal models leave exactly zero (with `clip`, if their norm is within the radius).
/// Another order of `others` gives the same up to the rounding of sums, and the same bits for the
/// rules by coordinate and Krum.
///
/// Returns which of `others` counted for less than they would have without a guard, or not at all,
/// in their order. Rules by coordinate and the geometric median, which take a little of each, only
/// tell of those that are not finite.
std::vector<std::size_t> guarded_change(const GuardOptions& options, std::span<const float> own,
                                        std::span<const NeighbourModel> others,
                                        std::span<float> change);

}  // namespace gv
