// LSTM (Hochreiter and Schmidhuber 1997), with forget gates (Gers 2000).
#include <algorithm>
#include <vector>

#include "train/layers/functions.hpp"
#include "train/layers/layer.hpp"
#include "train/layers/product.hpp"

namespace gv {
namespace {

/// With B samples, T positions, width W and H units; h and c are zero before the first position:
///   z[t] = x[t] Wx^T + h[t-1] Wh^T + b              (B, 4H): the sums of the gates i, f, g, o
///   c[t] = s(f) c[t-1] + s(i) tanh(g)               (B, H)
///   y[t] = h[t] = s(o) tanh(c[t])                   (B, H)
/// The products x Wx^T of all positions are computed at once, and then the states in order.
template <class T>
class Lstm final : public Layer<T> {
 public:
  explicit Lstm(const LayerPlan& plan)
      : plan_(plan), positions_(plan.in[0]), width_(plan.in[2]), units_(plan.spec.units) {}

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool, Rng&) override {
    const std::size_t rows = batch * positions_;
    z_.resize(rows * gates());
    cells_.resize(rows * units_);
    from_state_.resize(batch * gates());
    nothing_.assign(units_, T(0));
    multiply<T>({rows, gates(), width_}, {in, width_}, {parameters + plan_.weight, width_, true},
                z_.data(), gates());
    for (std::size_t t = 0; t < positions_; ++t) {
      if (t > 0) {
        multiply<T>({batch, gates(), units_}, {out + (t - 1) * units_, positions_ * units_},
                    {parameters + state_gates(), units_, true}, from_state_.data(), gates());
      }
      for (std::size_t n = 0; n < batch; ++n) {
        const std::size_t row = n * positions_ + t;
        T* z = z_.data() + row * gates();
        for (std::size_t k = 0; k < gates(); ++k) z[k] += parameters[plan_.bias + k];
        const T* more = from_state_.data() + n * gates();
        for (std::size_t k = 0; t > 0 && k < gates(); ++k) z[k] += more[k];
        lstm_forward(z, cell_before(row), cells_.data() + row * units_, out + row * units_, units_);
      }
    }
  }

  /// The gradient of each variable in forward() has the variable's name with the prefix d_.
  void backward_input(const T* parameters, const T*, const T*, const T* d_out, T* d_in,
                      std::size_t batch) override {
    const std::size_t rows = batch * positions_;
    d_z_.resize(rows * gates());
    d_h_.resize(units_);
    d_cells_.assign(batch * units_, T(0));
    d_states_.assign(batch * units_, T(0));
    for (std::size_t t = positions_; t-- > 0;) {
      for (std::size_t n = 0; n < batch; ++n) {
        const std::size_t row = n * positions_ + t;
        for (std::size_t k = 0; k < units_; ++k) {
          d_h_[k] = d_out[row * units_ + k] + d_states_[n * units_ + k];
        }
        lstm_backward(z_.data() + row * gates(), cell_before(row), cells_.data() + row * units_,
                      d_h_.data(), d_cells_.data() + n * units_, d_z_.data() + row * gates(),
                      units_);
      }
      if (t == 0) break;
      multiply<T>({batch, units_, gates()}, {d_z_.data() + t * gates(), positions_ * gates()},
                  {parameters + state_gates(), units_}, d_states_.data(), units_);
    }
    if (d_in == nullptr) return;
    multiply<T>({rows, width_, gates()}, {d_z_.data(), gates()},
                {parameters + plan_.weight, width_}, d_in, width_);
  }

  void backward_weight(const T*, const T* in, const T* out, const T*, T* d_parameters,
                       std::size_t batch) override {
    const std::size_t rows = batch * positions_;
    multiply<T>({gates(), width_, rows}, {d_z_.data(), gates(), true}, {in, width_},
                d_parameters + plan_.weight, width_);
    states_before_.resize(rows * units_);
    for (std::size_t row = 0; row < rows; ++row) {
      T* before = states_before_.data() + row * units_;
      if (row % positions_ == 0) {
        std::fill_n(before, units_, T(0));
      } else {
        std::copy_n(out + (row - 1) * units_, units_, before);
      }
    }
    multiply<T>({gates(), units_, rows}, {d_z_.data(), gates(), true},
                {states_before_.data(), units_}, d_parameters + state_gates(), units_);
    T* d_bias = d_parameters + plan_.bias;
    std::fill_n(d_bias, gates(), T(0));
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t k = 0; k < gates(); ++k) d_bias[k] += d_z_[row * gates() + k];
    }
  }

 private:
  std::size_t gates() const { return 4 * units_; }
  /// Offset of the weights that act on the state.
  std::size_t state_gates() const { return plan_.weight + gates() * width_; }
  const T* cell_before(std::size_t row) const {
    return row % positions_ == 0 ? nothing_.data() : cells_.data() + (row - 1) * units_;
  }

  LayerPlan plan_;
  std::size_t positions_;
  std::size_t width_;
  std::size_t units_;
  std::vector<T> z_;           ///< The values of the gates at every position.
  std::vector<T> cells_;       ///< c at every position.
  std::vector<T> from_state_;  ///< The state's contribution to z at one position.
  std::vector<T> nothing_;     ///< The state before the first position: zeros.
  std::vector<T> states_before_;
  std::vector<T> d_z_;
  std::vector<T> d_h_;
  std::vector<T> d_cells_;   ///< Gradient of c at the previous position that comes from later
                             ///< positions.
  std::vector<T> d_states_;  ///< Gradient of h at the previous position that comes from later
                             ///< positions.
};

}  // namespace

LayerFamily lstm_layers() { return {make_one<Lstm, float>, make_one<Lstm, double>}; }

}  // namespace gv
