// Finite differences, against which gradients are checked.
#pragma once

namespace gv {

/// The central difference of f() with respect to `value`, which is restored afterwards.
template <class F>
double slope(double& value, const F& f) {
  const double kept = value;
  value = kept + 1e-5;
  const double above = f();
  value = kept - 1e-5;
  const double below = f();
  value = kept;
  return (above - below) / 2e-5;
}

}  // namespace gv
