// The sharpness of a loss at a model: the eigenvalue with the largest magnitude of its Hessian.
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

/// Overwrites `gradient` with the gradient of one fixed loss at `x`; both are of the same size.
using GradientAt = std::function<void(std::span<const float> x, std::span<float> gradient)>;

struct SharpnessOptions {
  std::size_t iterations = 100;  ///< Most products with the Hessian.
  double tolerance = 0.01;       ///< Stop when the eigenvalue changes by less than this part.
};

struct Sharpness {
  double eigenvalue = 0;  ///< The Rayleigh quotient of the last vector; negative at a peak.
  /// |H v - eigenvalue v|. Some eigenvalue is at most this far away.
  double residual = 0;
  std::size_t iterations = 0;
  bool has_settled = false;  ///< True if the last change of the eigenvalue was below the tolerance.
};

/// Power iteration v <- H v / |H v| from a vector drawn from `rng`, with H v = (g(x + e v) -
/// g(x - e v)) / 2e, whose error goes with e^2. It finds the eigenvalue of the largest magnitude.
/// The width e begins with 0.005 max(1, |x|) and is halved until the quotients of two widths agree
/// within the tolerance. Empty if no width is found, which rounding of the gradient can cause, or
/// if a gradient is not finite.
std::optional<Sharpness> sharpness(const GradientAt& gradient, std::span<const float> x, Rng rng,
                                   const SharpnessOptions& options = {});

/// The gradient of the mean loss over the first `samples` of `data`. The layers must contain no
/// dropout, which would change the loss at each call (see without_dropout()). It is 0 for the
/// running statistics of batch norms. Both arguments must outlive it.
GradientAt gradient_on(Model& model, const DataSet& data, std::size_t samples);

/// The same model without dropout.
ModelSpec without_dropout(ModelSpec spec);

}  // namespace gv
