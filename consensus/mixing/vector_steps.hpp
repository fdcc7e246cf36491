// The formulas of the mixing rules: steps of models and momenta, each in a few lines.
#pragma once

#include <cstddef>
#include <span>

namespace gv {

/// x += scale y.
template <class Real>
void add(std::span<Real> x, std::span<const Real> y, double scale = 1) {
  const auto factor = static_cast<Real>(scale);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += factor * y[i];
}

/// x -= y.
template <class Real>
void take_away(std::span<Real> x, std::span<const Real> y) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] -= y[i];
}

/// Lets the time of one round pass: exp(dt [[-h, h], [h, -h]]) keeps the sum of model and companion
/// and shrinks their difference by exp(-2 h); `flow` is (1 - exp(-2 h)) / 2.
template <class Real>
void flow_together(std::span<Real> x, std::span<Real> companion, Real flow) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    const Real d = flow * (companion[i] - x[i]);
    x[i] += d;
    companion[i] -= d;
  }
}

/// Adds the change of the gradient to the tracker, and replaces the gradient by the tracker.
template <class Real>
void tracking_step(std::span<Real> tracker, std::span<Real> last, std::span<Real> gradient) {
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    tracker[i] += gradient[i] - last[i];
    last[i] = gradient[i];
    gradient[i] = tracker[i];
  }
}

/// momentum = smoothing momentum + scale (before - x).
template <class Real>
void quasi_global_step(std::span<Real> momentum, std::span<const Real> before,
                       std::span<const Real> x, double smoothing, double scale) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    momentum[i] =
        static_cast<Real>(smoothing) * momentum[i] + static_cast<Real>(scale) * (before[i] - x[i]);
  }
}

/// momentum = beta momentum + (before - x) / rate; x = before - rate momentum.
template <class Real>
void decentlam_step(std::span<Real> momentum, std::span<const Real> before, std::span<Real> x,
                    double beta, Real rate) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    momentum[i] = static_cast<Real>(beta) * momentum[i] + (before[i] - x[i]) / rate;
    x[i] = before[i] - rate * momentum[i];
  }
}

/// outer = beta outer + (slow - x) / rate; slow -= step outer; x = slow.
template <class Real>
void slowmo_step(std::span<Real> outer, std::span<Real> slow, std::span<Real> x, double beta,
                 Real rate, Real step) {
  for (std::size_t i = 0; i < x.size(); ++i) {
    outer[i] = static_cast<Real>(beta) * outer[i] + (slow[i] - x[i]) / rate;
    x[i] = slow[i] -= step * outer[i];
  }
}

}  // namespace gv
