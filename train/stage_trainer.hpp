// What a model can be cut into: the layouts of stages, the work of layers, the problems of a cut.
#pragma once

#include <cstddef>
#include <vector>

#include "base/problems.hpp"
#include "train/learner/layout.hpp"
#include "train/spec.hpp"

namespace gv {

/// The tensors of each stage of a sound cut, as a stage learner of them has them.
std::vector<Layout> stage_layouts(const ModelSpec& model, SampleShape input,
                                  const std::vector<std::size_t>& ends);

/// The work of a layer for one sample, estimated from its shapes.
struct LayerWork {
  /// Multiplications and additions of a forward pass; a backward pass takes twice as many.
  double operations = 0;
  std::size_t parameters = 0;
  std::size_t outputs = 0;      ///< Floats passed to the next layer and kept for backward.
  bool may_begin_stage = true;  ///< It has parameters, and shares none with layers before it.
};
std::vector<LayerWork> layer_work(const ModelSpec& model, SampleShape input);

/// Everything wrong with a cut of this model, for people; places are "pipeline.ends".
Problems cut_problems(const ModelSpec& model, SampleShape input,
                      const std::vector<std::size_t>& ends);

}  // namespace gv
