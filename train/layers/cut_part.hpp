// The layers that a group can share, and one member's part of them as a layer of its own.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/range.hpp"
#include "train/layers/layer.hpp"

namespace gv {

/// Dense and attention layers with fewer weights are computed by every member unless they are to be
/// shared, because a sum would take longer.
inline constexpr std::size_t cut_weights_min = 1024;

/// A table of tokens with fewer numbers is held by every member, unless it is to be shared: it
/// would save them little memory, and a sum of the rows takes longer than to look them up.
inline constexpr std::size_t cut_table_min = std::size_t{1} << 20;

/// True for activations, which act on each value alone.
bool is_of_each_value(LayerKind kind);

/// True if members have the outputs of some classes each, and the loss is computed in parts: a last
/// dense layer with more classes than inputs, unless all members have its weights.
bool goes_by_classes(const LayerPlan& layer);

/// The number of layers from `layers[first]` on that members share by model as one unit: 3 for two
/// dense layers with an activation between them, 1 for a single dense, attention, convolution or
/// embedding layer, and 0 if they do not share the layer by model, or share it by classes. The unit
/// does not depend on the group.
std::size_t layers_to_cut(std::span<const LayerPlan> layers, std::size_t first);

/// Grains of a unit: hidden units of a pair, heads of attention, channels of a convolution's
/// outputs, tokens of an embedding, classes, or for another single dense layer its outputs or
/// inputs, whichever are more.
std::size_t grains(std::span<const LayerPlan> unit);

/// The places of some grains' parameters in the flat vector of the stage, ascending, without biases
/// that every member has (biases_of), and of a tied layer without its table.
std::vector<Range> cut_ranges(std::span<const LayerPlan> unit, const Range& grains);

/// The biases in the stage's vector that every member adds once to the sum of outputs, or the
/// table of positions; empty if they are in the summands. They follow all other parameters of the
/// unit. Every member computes their whole gradient.
Range biases_of(std::span<const LayerPlan> unit);

/// A member's part of a unit as a layer. It works on a vector with the parameters of its grains
/// (cut_ranges), followed by biases_of(). Its outputs are summands of the unit's outputs, and the
/// gradient of its inputs is a summand, too. Null without grains.
template <class T>
std::unique_ptr<Layer<T>> make_cut_part(std::span<const LayerPlan> unit, const Range& grains);

}  // namespace gv
