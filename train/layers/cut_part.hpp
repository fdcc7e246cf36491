// The layers that a group can share, and one member's part of them as a layer of its own.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/range.hpp"
#include "train/layers/layer.hpp"

namespace gv {

/// Dense and attention layers with fewer weights are computed by every member, because a sum would
/// take longer.
inline constexpr std::size_t cut_weights_min = 1024;

/// The number of layers from `layers[first]` on that members share as one unit: 3 for two dense
/// layers with an activation between them, 1 for a single dense layer or one of attention, and 0 if
/// every member computes the layer. The unit does not depend on the group.
std::size_t layers_to_cut(std::span<const LayerPlan> layers, std::size_t first);

/// Grains of a unit: hidden units of a pair, heads of attention, or for a single dense layer its
/// outputs or inputs, whichever are more.
std::size_t grains(std::span<const LayerPlan> unit);

/// The places of some grains' parameters in the flat vector of the stage, ascending, without biases
/// that every member has (biases_of).
std::vector<Range> cut_ranges(std::span<const LayerPlan> unit, const Range& grains);

/// The biases in the stage's vector that every member adds once to the sum of outputs; empty if
/// they are in the summands. They follow all other parameters of the unit. Every member computes
/// their whole gradient.
Range biases_of(std::span<const LayerPlan> unit);

/// A member's part of a unit as a layer. It works on a vector with the parameters of its grains
/// (cut_ranges), followed by biases_of(). Its outputs are summands of the unit's outputs, and the
/// gradient of its inputs is a summand, too. Null without grains.
template <class T>
std::unique_ptr<Layer<T>> make_cut_part(std::span<const LayerPlan> unit, const Range& grains);

}  // namespace gv
