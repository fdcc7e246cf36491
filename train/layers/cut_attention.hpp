// One member's heads of an attention layer that several peers share.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "base/range.hpp"
#include "train/layers/layer.hpp"

namespace gv {

/// The parameters of a member with some of the heads: these heads' rows of the weights for queries,
/// keys and values, and their columns of the output matrix. Every member also has all biases of the
/// output.
struct AttentionPart {
  /// The places of the part's parameters in the flat vector of the whole model. In the part's own
  /// vector they are consecutive, in this order.
  std::vector<Range> ranges;
  std::size_t out_bias = 0;  ///< Offset of the biases of the output in the part's own vector.
};
AttentionPart attention_part(const LayerPlan& plan, const Range& heads);

/// Makes a layer of these heads, whose parameters are the part's own vector. Its outputs and the
/// gradient of its inputs are summands, which members add in the order of their heads. Each member
/// then adds the biases to the sum of outputs. The gradients of the parameters need no exchange:
/// those of a head belong to one member, and all members compute the same gradient of the output's
/// biases. T is float or double.
template <class T>
std::unique_ptr<Layer<T>> make_attention_part(const LayerPlan& plan, const Range& heads);

}  // namespace gv
