// The ways to cut a model into stages: layouts, the work of each layer, and the problems of a cut.
#pragma once

#include <cstddef>
#include <vector>

#include "base/problems.hpp"
#include "train/layers/sliced_stage.hpp"
#include "train/spec.hpp"

namespace gv {

/// The stages of a valid cut of `model` at `ends`. Stages that groups can share have `slices`
/// slices.
std::vector<SlicedStage> sliced_stages(const ModelSpec& model, SampleShape input,
                                       const std::vector<std::size_t>& ends, std::size_t slices);

/// Layers that the members of a group share as one unit: either layers whose outputs, heads,
/// channels or tokens they divide (see layers_to_cut), or a layer whose rows they divide. Figures
/// are for one sample.
struct SharedUnit {
  double operations = 0;       ///< Multiplications and additions in a forward pass.
  std::size_t parameters = 0;  ///< Parameters that the members divide.
  std::size_t grains = 0;      ///< Pieces into which the unit can be divided.
  std::size_t inputs = 0;      ///< Floats that members sum in a backward pass.
  std::size_t outputs = 0;     ///< Floats that members sum in a forward pass.
  /// Floats that two neighbouring members exchange: rows, or the statistics of a group norm.
  std::size_t edges = 0;
  /// Floats of batch norm statistics from each member, for any batch size.
  std::size_t statistics = 0;
  bool has_strips = false;    ///< True if the members share the unit by rows.
  bool takes_strips = false;  ///< True if members get their rows from the previous unit.
};

/// The work of a layer for one sample, estimated from its shapes.
struct LayerWork {
  /// Number of multiplications and additions in a forward pass. A backward pass takes twice as
  /// many.
  double operations = 0;
  std::size_t parameters = 0;
  std::size_t sliced = 0;   ///< The part of the parameters that the members of a group divide.
  std::size_t outputs = 0;  ///< Floats passed to the next layer and kept for the backward pass.
  /// True if the layer has parameters and shares none with earlier layers.
  bool may_begin_stage = true;
  /// The units in which a group shares the layer, if the layer is not part of a pair.
  std::vector<SharedUnit> units;
  bool begins_shared = false;  ///< True if the layer's first parameters are in a shared unit.
  /// Hidden units of the pair that this layer begins; 0 if it begins none. A pair consists of this
  /// layer and the dense layer two places later. Both must be in one stage, and this layer must not
  /// end another pair.
  std::size_t pair_grains = 0;
};
std::vector<LayerWork> layer_work(const ModelSpec& model, SampleShape input);

/// Returns for each stage of a valid cut whether a group of peers can share it, because it has a
/// layer that can be divided.
std::vector<bool> shareable_stages(const ModelSpec& model, SampleShape input,
                                   const std::vector<std::size_t>& ends);

/// Lists everything wrong with a cut of this model. All problems name the place "pipeline.ends".
Problems cut_problems(const ModelSpec& model, SampleShape input,
                      const std::vector<std::size_t>& ends);

}  // namespace gv
