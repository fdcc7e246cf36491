// The models that hostile peers send in place of their own, made from those of honest peers.
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

/// Kinds of attacks. Flipped labels change a hostile peer's data; all others change what it sends.
enum class AttackKind : std::uint8_t {
  honest,            ///< Its own model.
  bit_flip,          ///< -x: every sign bit is flipped.
  scale,             ///< s x.
  little_is_enough,  ///< mu - s sigma by coordinate (Baruch 2019): far, and not the farthest.
  inner_product,     ///< -s mu (Xie 2020), small and the wrong way.
  dissensus,         ///< x_i - s sum_good w_j (x_j - x_i) / sum_hostile w (He 2022), to peer i.
  not_a_number,      ///< Its own model with one value that is none.
  lying_weight,      ///< Its own model, and a weight s times as large.
  label_flip,        ///< mu + s (x - mu), x from labels y that were turned into the last less y.
};

/// The names in configs.
inline constexpr auto attack_names =
    names_of<AttackKind>({"honest", "bit_flip", "scale", "little_is_enough", "inner_product",
                          "dissensus", "not_a_number", "lying_weight", "label_flip"});
inline constexpr auto attack_kinds = attack_names.kinds();
constexpr std::string_view to_string(AttackKind kind) { return attack_names[kind]; }

/// Whether its strength can be chosen.
bool has_strength(AttackKind kind);

/// The knowledge of a hostile peer. All models have one size and are finite.
struct AttackView {
  std::span<const float> own;     ///< x, the model it would send if it were honest.
  std::span<const float> victim;  ///< x_i, the model of the receiver.
  /// The models x_j of honest peers, other than the victim's, and their weights w_j in the row of
  /// the victim. mu and sigma are their mean and standard deviation (of a sample, with n - 1).
  std::span<const NeighbourModel> honest;
  double hostile_weight = 0;  ///< sum_hostile w, in that row: above 0 for dissensus.
  std::size_t hostile = 1;    ///< f: number of peers that send this together.
};

/// s of an attack as it was published: scale 100, inner_product 0.1, dissensus 1.5, lying_weight
/// 1000, label_flip 1, and little_is_enough_z; 1 for those without.
double published_strength(AttackKind kind, const AttackView& view);

/// z of Baruch 2019 for n peers of which f are hostile: the quantile of (n - f - s) / (n - f),
/// where s = floor(n / 2) + 1 - f honest ones have to be farther out for the attack to be in the
/// majority. At least 0.
double little_is_enough_z(std::size_t peers, std::size_t hostile);

/// The model to send, as long as the victim's, with the given s or the published one.
std::vector<float> attacked(AttackKind kind, const AttackView& view,
                            std::optional<double> strength = std::nullopt);

/// The weight to send with it, where a rule sends one (push-sum, means by samples).
double attacked_weight(AttackKind kind, double weight,
                       std::optional<double> strength = std::nullopt);

}  // namespace gv
