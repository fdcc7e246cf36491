// The ways to cut a model into stages: layouts, the work of each layer, and the problems of a cut.
#pragma once

#include <cstddef>
#include <vector>

#include "base/problems.hpp"
#include "train/layers/sliced_stage.hpp"
#include "train/spec.hpp"

namespace gv {

/// The stages of a valid cut. Stages that groups can share have that many slices.
std::vector<SlicedStage> sliced_stages(const ModelSpec& model, SampleShape input,
                                       const std::vector<std::size_t>& ends, std::size_t slices);

/// Layers that the members of a group share by model as one unit (layers_to_cut), or a layer that
/// they share by rows. Figures are for one sample.
struct SharedUnit {
  double operations = 0;       ///< Multiplications and additions in a forward pass.
  std::size_t parameters = 0;  ///< Parameters that members divide up.
  std::size_t grains = 0;      ///< Pieces into which the unit can be divided.
  std::size_t inputs = 0;      ///< Floats that members sum in a backward pass.
  std::size_t outputs = 0;     ///< Floats that members sum in a forward pass.
  /// Floats of the rows that two neighbouring members exchange, or of the statistics of a group
  /// norm.
  std::size_t edges = 0;
  std::size_t statistics = 0;  ///< Numbers of a batch norm by each member, for any batch.
  bool has_strips = false;     ///< True if they share it by rows.
  bool takes_strips = false;   ///< True if their strips come from the unit before.
};

/// The work of a layer for one sample, estimated from its shapes.
struct LayerWork {
  /// Number of multiplications and additions in a forward pass. A backward pass takes twice as
  /// many.
  double operations = 0;
  std::size_t parameters = 0;
  std::size_t sliced = 0;       ///< The part of these operations that the members of a group divide
                                ///< among themselves.
  std::size_t outputs = 0;      ///< Floats passed to the next layer and kept for the backward pass.
  bool may_begin_stage = true;  ///< True if it has parameters and shares none with earlier layers.
  /// What a group shares of it, if it makes no pair with another layer.
  std::vector<SharedUnit> units;
  bool begins_shared = false;  ///< True if its first parameters are in a unit.
  /// Hidden units of the pair that it begins; 0: none. A pair is this layer and the dense layer
  /// after the next, if both are in one stage and this one is not the second of a pair.
  std::size_t pair_grains = 0;
};
std::vector<LayerWork> layer_work(const ModelSpec& model, SampleShape input);

/// True if a group of peers can share some layer of some stage of a valid cut.
bool can_share_stages(const ModelSpec& model, SampleShape input,
                      const std::vector<std::size_t>& ends);

/// Lists everything wrong with a cut of this model; places are "pipeline.ends".
Problems cut_problems(const ModelSpec& model, SampleShape input,
                      const std::vector<std::size_t>& ends);

}  // namespace gv
