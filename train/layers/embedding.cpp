// Turns ids into rows of two learned tables: y[t] = tokens[id[t]] + positions[t].
#include <algorithm>

#include "train/layers/functions.hpp"
#include "train/layers/layer.hpp"

namespace gv {
namespace {

template <class T>
class Embedding final : public Layer<T> {
 public:
  explicit Embedding(const LayerPlan& plan)
      : plan_(plan), positions_(plan.in[0]), width_(plan.spec.units) {}

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool, Rng&) override {
    const T* tokens = parameters + plan_.weight;   // (V, W)
    const T* positions = parameters + plan_.bias;  // (T, W)
    for (std::size_t row = 0; row < batch * positions_; ++row) {
      const T* token = tokens + id(in[row]) * width_;
      const T* position = positions + row % positions_ * width_;
      for (std::size_t i = 0; i < width_; ++i) out[row * width_ + i] = token[i] + position[i];
    }
  }

  /// Writes zeros, because ids are discrete.
  void backward_input(const T*, const T*, const T*, const T*, T* d_in, std::size_t batch) override {
    if (d_in != nullptr) std::fill_n(d_in, batch * positions_, T(0));
  }

  void backward_weight(const T*, const T* in, const T*, const T* d_out, T* d_parameters,
                       std::size_t batch) override {
    T* d_tokens = d_parameters + plan_.weight;
    T* d_positions = d_parameters + plan_.bias;
    // A layer that shares the table of tokens has already written its part of the tokens' gradient.
    if (!plan_.is_shared) std::fill_n(d_tokens, plan_.spec.vocabulary * width_, T(0));
    std::fill_n(d_positions, positions_ * width_, T(0));
    for (std::size_t row = 0; row < batch * positions_; ++row) {
      T* d_token = d_tokens + id(in[row]) * width_;
      T* d_position = d_positions + row % positions_ * width_;
      for (std::size_t i = 0; i < width_; ++i) {
        d_token[i] += d_out[row * width_ + i];
        d_position[i] += d_out[row * width_ + i];
      }
    }
  }

 private:
  std::size_t id(T value) const { return existing_id(value, plan_.spec.vocabulary - 1); }

  LayerPlan plan_;
  std::size_t positions_;
  std::size_t width_;
};

}  // namespace

LayerFamily embedding_layers() { return {make_one<Embedding, float>, make_one<Embedding, double>}; }

}  // namespace gv
