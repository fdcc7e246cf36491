// A model description resolved for one input shape: every layer's shapes and parameter tensors.
#pragma once

#include <cstddef>
#include <vector>

#include "consensus/base/problems.hpp"
#include "train/layout.hpp"
#include "train/spec.hpp"

namespace gv {

/// Number of elements of one sample.
constexpr std::size_t elements(const SampleShape& shape) { return shape[0] * shape[1] * shape[2]; }

/// One layer with its shapes. Parameters are found in the flat vector at the offsets given.
struct LayerPlan {
  LayerSpec spec;     ///< With `stride` resolved.
  SampleShape in{};   ///< (C, H, W)
  SampleShape out{};  ///< (C, H, W)
  bool has_parameters = false;
  /// Offset of the weights (dense (out, in), conv2d (out, in, k, k)) or gains; in a layer without
  /// parameters, where they would be.
  std::size_t weight = 0;
  std::size_t bias = 0;  ///< Offset of the biases (units, or one for each gain).
};

/// All layers and the layout of their parameters.
struct ModelPlan {
  std::vector<LayerPlan> layers;
  Layout layout;
  SampleShape in{};
  std::size_t outputs = 0;
};

/// Resolves `spec`, appending what is wrong to `problems` (places are "layers[3]"); the plan is of
/// use only when nothing was.
ModelPlan plan_model(const ModelSpec& spec, const SampleShape& input, Problems& problems);

/// The layers [first, last) as a plan of their own: one stage of a pipeline. Its flat vector begins
/// at 0 and is a piece of the whole one, from where layer `first` begins in it; its tensors keep
/// their names. Networks of slices, one after the other, compute what the whole network does.
ModelPlan slice(const ModelPlan& plan, std::size_t first, std::size_t last);

}  // namespace gv
