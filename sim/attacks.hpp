// The models that hostile peers send instead of their own, computed from those of honest peers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/names.hpp"
#include "consensus/mixing/robust.hpp"

namespace gv {

/// Kinds of attack, with strength s; AttackView explains the other symbols. label_flip changes a
/// hostile peer's data; all others change its messages.
enum class AttackKind : std::uint8_t {
  honest,    ///< Not an attack: the peer sends its own model x.
  bit_flip,  ///< -x: the sign of every value is flipped.
  scale,     ///< s x: the peer's own model, scaled.
  /// mu - s sigma for each coordinate (Baruch 2019): far from the mean, but not the farthest.
  little_is_enough,
  inner_product,  ///< -s mu (Xie 2020): small, and in the opposite direction.
  /// Sends peer i the model x_i - s sum_good w_j (x_j - x_i) / sum_hostile w (He 2022).
  dissensus,
  not_a_number,  ///< The peer's own model with one value replaced by NaN.
  lying_weight,  ///< The peer's own model, with s times the true weight.
  /// mu + s (x - mu), where x was trained with each label y replaced by (last label - y).
  label_flip,
};

/// The names used in configs.
inline constexpr auto attack_names =
    names_of<AttackKind>({"honest", "bit_flip", "scale", "little_is_enough", "inner_product",
                          "dissensus", "not_a_number", "lying_weight", "label_flip"});
inline constexpr auto attack_kinds = attack_names.kinds();
constexpr std::string_view to_string(AttackKind kind) { return attack_names[kind]; }

/// True if the attack's strength can be chosen.
bool has_strength(AttackKind kind);

/// The information that a hostile peer has. All models have the same size and are finite.
struct AttackView {
  std::span<const float> own;  ///< x, the model that the hostile peer would send if it were honest.
  std::span<const float> victim;  ///< x_i, the receiver's model.
  /// The models x_j of honest peers other than the victim, with their weights w_j in the victim's
  /// row of the mixing matrix. mu and sigma are their mean and (sample) standard deviation.
  std::span<const NeighbourModel> honest;
  /// Sum of the hostile peers' weights in the victim's row of the mixing matrix. Must be above 0
  /// for dissensus.
  double hostile_weight = 0;
  std::size_t hostile = 1;  ///< f, the number of hostile peers that send the attack together.
};

/// The published strength s of an attack: scale 100, inner_product 0.1, dissensus 1.5, lying_weight
/// 1000, label_flip 1, and for little_is_enough the result of little_is_enough_z(). It is 1 for
/// attacks without a strength.
double published_strength(AttackKind kind, const AttackView& view);

/// z of Baruch 2019 for n peers, f of them hostile: the normal quantile of (n - f - s) / (n - f).
/// Here s = floor(n / 2) + 1 - f is the number of honest peers that must be farther from the mean
/// than the attack, so that the attack has a majority. The result is at least 0.
double little_is_enough_z(std::size_t peers, std::size_t hostile);

/// The model to send, of the same size as the victim's. `strength` replaces the published one.
std::vector<float> attacked(AttackKind kind, const AttackView& view,
                            std::optional<double> strength = std::nullopt);

/// The weight to send, for rules that send one (push-sum, means weighted by samples).
double attacked_weight(AttackKind kind, double weight,
                       std::optional<double> strength = std::nullopt);

}  // namespace gv
