// The initial values of parameters.
#pragma once

#include <span>

#include "base/range.hpp"
#include "base/rng.hpp"
#include "train/layers/plan.hpp"

namespace gv {

/// Fills `parameters` (layout.size() floats) as Model::initialise does, with the spec's initial
/// `deviation`. `layout` holds all tensors of `whole`, or those of a slice. A tensor's values
/// depend only on its name, its place in `whole` and `rng`, so a slice begins with the same values
/// as in the whole model. Returns the largest magnitude.
float initialise(const ModelPlan& whole, double deviation, const Layout& layout,
                 std::span<float> parameters, const Rng& rng);

/// Like the function above, but fills `parameters` only with the values in these ascending ranges
/// of the layout. Needs no memory for the others. Returns the largest magnitude of all parameters
/// in the layout.
float initialise(const ModelPlan& whole, double deviation, const Layout& layout,
                 std::span<const Range> ranges, std::span<float> parameters, const Rng& rng);

}  // namespace gv
