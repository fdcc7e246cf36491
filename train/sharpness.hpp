// The sharpness of a loss at a model: the eigenvalue of its Hessian with the largest magnitude.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "base/rng.hpp"
#include "train/data_set.hpp"
#include "train/model.hpp"

namespace gv {

/// Overwrites `gradient` with the gradient of one fixed loss at `x`. Both spans have the same size.
using GradientAt = std::function<void(std::span<const float> x, std::span<float> gradient)>;

struct SharpnessOptions {
  std::size_t iterations = 100;  ///< Largest number of products with the Hessian.
  double tolerance = 0.01;  ///< Stop when the eigenvalue's relative change is below this tolerance.
};

struct Sharpness {
  double eigenvalue = 0;  ///< The Rayleigh quotient of the last vector; negative at a peak.
  /// |H v - eigenvalue v| for the last vector v, of length 1, and the Hessian H. H has an
  /// eigenvalue within this distance of `eigenvalue`.
  double residual = 0;
  std::size_t iterations = 0;
  bool has_settled = false;  ///< True if the last change of the eigenvalue was below the tolerance.
};

/// Finds the eigenvalue of the Hessian H with the largest magnitude, by power iteration v <- H v /
/// |H v| from a vector drawn from `rng`. H v = (g(x + e v) - g(x - e v)) / 2e with the gradient g;
/// its error is of order e^2. The width e begins at 0.005 max(1, |x|) and is halved until the
/// quotients of two widths agree within the tolerance. Returns nullopt if no widths agree, for
/// example because gradients are rounded, or if a gradient is not finite.
std::optional<Sharpness> sharpness(const GradientAt& gradient, std::span<const float> x, Rng rng,
                                   const SharpnessOptions& options = {});

/// The gradient of the mean loss over the first `samples` of `data`. The layers must contain no
/// dropout, which would change the loss at each call (see without_dropout()). The gradient is 0 at
/// the running statistics of batch norms. `model` and `data` must outlive the result.
GradientAt gradient_on(Model& model, const DataSet& data, std::size_t samples);

/// The same model without dropout.
ModelSpec without_dropout(ModelSpec spec);

}  // namespace gv
