// How a model can be cut into stages: their layouts, the work of each layer, and the problems of a
// cut.
#pragma once

#include <cstddef>
#include <vector>

#include "base/problems.hpp"
#include "train/layers/sliced_stage.hpp"
#include "train/spec.hpp"

namespace gv {

/// The stages of a valid cut, with that many slices in those that groups can share.
std::vector<SlicedStage> sliced_stages(const ModelSpec& model, SampleShape input,
                                       const std::vector<std::size_t>& ends, std::size_t slices);

/// The work of a layer for one sample, estimated from its shapes.
struct LayerWork {
  /// Number of multiplications and additions in a forward pass. A backward pass takes twice as
  /// many.
  double operations = 0;
  std::size_t parameters = 0;
  std::size_t sliced = 0;       ///< Those of them that the members of a group divide up.
  std::size_t outputs = 0;      ///< Floats passed to the next layer and kept for the backward pass.
  bool may_begin_stage = true;  ///< True if it has parameters and shares none with earlier layers.
};
std::vector<LayerWork> layer_work(const ModelSpec& model, SampleShape input);

/// True if a group of peers can share some layer of some stage of a valid cut.
bool can_share_stages(const ModelSpec& model, SampleShape input,
                      const std::vector<std::size_t>& ends);

/// Lists everything wrong with a cut of this model; places are "pipeline.ends".
Problems cut_problems(const ModelSpec& model, SampleShape input,
                      const std::vector<std::size_t>& ends);

}  // namespace gv
