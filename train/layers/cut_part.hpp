// The layers that a group can share, and one member's part of them as a separate layer.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/range.hpp"
#include "train/layers/layer.hpp"

namespace gv {

/// By default, dense and attention layers with fewer weights than this are not shared, because the
/// sum would take longer than computing the layer.
inline constexpr std::size_t cut_weights_min = 1024;

/// By default, a table of tokens with fewer values than this is not shared. Sharing it would save
/// little memory, and summing the rows takes longer than looking them up.
inline constexpr std::size_t cut_table_min = std::size_t{1} << 20;

/// True for activations that act on each value separately.
bool is_of_each_value(LayerKind kind);

/// True if each member has the outputs of some classes, and the loss is computed in parts. This
/// holds for the last layer if it is dense, members divide its weights, and it is tied or has more
/// classes than inputs.
bool goes_by_classes(const LayerPlan& layer);

/// Returns how many layers, from `layers[first]` on, members share as one unit by splitting the
/// model: 3 for two dense layers with an activation between them, and 1 for a single dense,
/// attention, convolution or embedding layer. Returns 0 if members do not share the layer, or share
/// it by rows or classes. The unit does not depend on the group.
std::size_t layers_to_cut(std::span<const LayerPlan> layers, std::size_t first);

/// Returns the number of grains of a unit: hidden units of a pair, heads of attention, output
/// channels of a convolution, tokens of an embedding, or classes. In a single dense layer that is
/// not shared by classes, the grains are the outputs or the inputs, whichever are more numerous.
std::size_t grains(std::span<const LayerPlan> unit);

/// Returns the places of some grains' parameters in the flat vector of the stage, ascending. Leaves
/// out biases that every member has (biases_of), and the table of a tied layer.
std::vector<Range> cut_ranges(std::span<const LayerPlan> unit, const Range& grains);

/// Returns the range of the biases, or of the table of positions, in the stage's vector. Every
/// member adds these values once to the sum of outputs. Empty if the summands already contain the
/// biases. The range follows all other parameters of the unit. Every member computes the whole
/// gradient of the range.
Range biases_of(std::span<const LayerPlan> unit);

/// Makes a member's part of a unit as a layer. The layer works on a vector with the parameters of
/// its grains (cut_ranges), followed by biases_of(). Its outputs and the gradient of its inputs are
/// summands of the unit's outputs and gradient. Null if there are no grains.
template <class T>
std::unique_ptr<Layer<T>> make_cut_part(std::span<const LayerPlan> unit, const Range& grains);

}  // namespace gv
