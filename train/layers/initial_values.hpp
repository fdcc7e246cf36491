// The initial values of parameters.
#pragma once

#include <span>

#include "base/rng.hpp"
#include "train/layers/plan.hpp"

namespace gv {

/// Fills `parameters` (layout.size() floats) as Model::initialise does, with the spec's initial
/// `deviation`. `layout` holds all tensors of `whole`, or those of a slice. A tensor's values
/// depend only on its name, its place in `whole` and `rng`, so a slice begins with the same values
/// as in the whole model.
void initialise(const ModelPlan& whole, double deviation, const Layout& layout,
                std::span<float> parameters, Rng rng);

}  // namespace gv
