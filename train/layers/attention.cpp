// Causal self-attention with several heads (Vaswani 2017).
#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.hpp"
#include "train/layers/cut_attention.hpp"
#include "train/layers/functions.hpp"
#include "train/layers/layer.hpp"
#include "train/layers/product.hpp"

namespace gv {
namespace {

/// There are B samples, T positions, width W, and H heads of width D. The heads have a joint width
/// of V = H D, which is W in a whole layer but less in a part of one:
///   qkv = x Wqkv^T + bqkv                                (B, T, 3V)
///   for each sample and head, with its columns q, k, v (T, D) of qkv:
///     p[i] = softmax over j <= i of q[i] k[j] / sqrt(D)  (T, T), zero for j > i
///     its columns of mixed are p v                       (B, T, V)
///   y = mixed Wout^T + bout, without bout in a part
template <class T>
class Attention final : public Layer<T> {
 public:
  explicit Attention(const LayerPlan& plan)
      : at_(attention_offsets(plan)),
        positions_(plan.in[0]),
        width_(plan.in[2]),
        heads_(plan.spec.heads),
        head_(width_ / heads_),
        inner_(width_),
        scale_(1 / std::sqrt(static_cast<T>(head_))) {}

  /// A part with `heads` of the layer's heads. Its parameters are only those of the part.
  Attention(const LayerPlan& plan, std::size_t heads)
      : positions_(plan.in[0]),
        width_(plan.in[2]),
        heads_(heads),
        head_(width_ / plan.spec.heads),
        inner_(heads * head_),
        scale_(1 / std::sqrt(static_cast<T>(head_))),
        is_part_(true) {
    at_.qkv_bias = 3 * inner_ * width_;
    at_.out_weight = at_.qkv_bias + 3 * inner_;
    at_.out_bias = at_.out_weight + width_ * inner_;
  }

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool, Rng&) override {
    const std::size_t rows = batch * positions_;
    qkv_.resize(rows * 3 * inner_);
    mixed_.resize(rows * inner_);
    shares_.resize(batch * heads_ * area());
    project(in, rows, width_, parameters + at_.qkv_weight, parameters + at_.qkv_bias, 3 * inner_,
            qkv_.data());
    each_head(batch, [&](std::size_t row, std::size_t column, T* p) {
      const T* q = qkv_.data() + row * 3 * inner_ + column;
      multiply<T>({positions_, positions_, head_}, {q, 3 * inner_}, {key(q), 3 * inner_, true}, p,
                  positions_, scale_);
      for (std::size_t i = 0; i < positions_; ++i) softmax(p + i * positions_, i + 1);
      multiply<T>({positions_, head_, positions_}, {p, positions_}, {value(q), 3 * inner_},
                  mixed_.data() + row * inner_ + column, inner_);
    });
    project(mixed_.data(), rows, inner_, parameters + at_.out_weight,
            is_part_ ? nullptr : parameters + at_.out_bias, width_, out);
  }

  /// The gradient of each variable in forward() has the variable's name with the prefix d_. d_s is
  /// the gradient of q k / sqrt(D).
  void backward_input(const T* parameters, const T*, const T*, const T* d_out, T* d_in,
                      std::size_t batch) override {
    const std::size_t rows = batch * positions_;
    d_mixed_.resize(rows * inner_);
    d_qkv_.resize(rows * 3 * inner_);
    d_s_.resize(area());
    multiply<T>({rows, inner_, width_}, {d_out, width_}, {parameters + at_.out_weight, inner_},
                d_mixed_.data(), inner_);
    each_head(batch, [&](std::size_t row, std::size_t column, const T* p) {
      const std::size_t stride = 3 * inner_;
      const T* q = qkv_.data() + row * stride + column;
      const T* d_mixed = d_mixed_.data() + row * inner_ + column;
      T* d_q = d_qkv_.data() + row * stride + column;
      T* d_s = d_s_.data();
      multiply<T>({positions_, head_, positions_}, {p, positions_, true}, {d_mixed, inner_},
                  value(d_q), stride);
      multiply<T>({positions_, positions_, head_}, {d_mixed, inner_}, {value(q), stride, true}, d_s,
                  positions_);
      for (std::size_t i = 0; i < positions_; ++i) {
        softmax_backward(p + i * positions_, d_s + i * positions_, i + 1);
        std::fill(d_s + i * positions_ + i + 1, d_s + (i + 1) * positions_, T(0));
      }
      multiply<T>({positions_, head_, positions_}, {d_s, positions_}, {key(q), stride}, d_q, stride,
                  scale_);
      multiply<T>({positions_, head_, positions_}, {d_s, positions_, true}, {q, stride}, key(d_q),
                  stride, scale_);
    });
    if (d_in == nullptr) return;
    multiply<T>({rows, width_, 3 * inner_}, {d_qkv_.data(), 3 * inner_},
                {parameters + at_.qkv_weight, width_}, d_in, width_);
  }

  void backward_weight(const T*, const T* in, const T*, const T* d_out, T* d_parameters,
                       std::size_t batch) override {
    const std::size_t rows = batch * positions_;
    project_backward(mixed_.data(), rows, inner_, d_out, width_, d_parameters + at_.out_weight,
                     d_parameters + at_.out_bias);
    project_backward(in, rows, width_, d_qkv_.data(), 3 * inner_, d_parameters + at_.qkv_weight,
                     d_parameters + at_.qkv_bias);
  }

 private:
  std::size_t area() const { return positions_ * positions_; }
  template <class Pointer>
  Pointer key(Pointer query) const {
    return query + inner_;
  }
  template <class Pointer>
  Pointer value(Pointer query) const {
    return query + 2 * inner_;
  }

  /// Calls visit() for each head of each sample with the sample's first row, the head's first
  /// column, and the head's p.
  template <class Visit>
  void each_head(std::size_t batch, Visit visit) {
    for (std::size_t n = 0; n < batch; ++n) {
      for (std::size_t h = 0; h < heads_; ++h) {
        visit(n * positions_, h * head_, shares_.data() + (n * heads_ + h) * area());
      }
    }
  }

  /// Computes y = x w^T + b. Leaves out b if it is null.
  static void project(const T* x, std::size_t rows, std::size_t inputs, const T* w, const T* b,
                      std::size_t outputs, T* y) {
    multiply<T>({rows, outputs, inputs}, {x, inputs}, {w, inputs, true}, y, outputs);
    if (b == nullptr) return;
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t i = 0; i < outputs; ++i) y[row * outputs + i] += b[i];
    }
  }

  static void project_backward(const T* x, std::size_t rows, std::size_t inputs, const T* dy,
                               std::size_t outputs, T* dw, T* db) {
    multiply<T>({outputs, inputs, rows}, {dy, outputs, true}, {x, inputs}, dw, inputs);
    std::fill_n(db, outputs, T(0));
    for (std::size_t row = 0; row < rows; ++row) {
      for (std::size_t i = 0; i < outputs; ++i) db[i] += dy[row * outputs + i];
    }
  }

  /// Replaces the first `count` values of a row by their softmax, and the others by zero.
  void softmax(T* row, std::size_t count) const {
    const T share = 1 / exponentials(row, row, count);
    for (std::size_t j = 0; j < count; ++j) row[j] *= share;
    std::fill(row + count, row + positions_, T(0));
  }

  AttentionOffsets at_;
  std::size_t positions_;
  std::size_t width_;
  std::size_t heads_;
  std::size_t head_;   ///< Width of one head.
  std::size_t inner_;  ///< Width of all heads of this part.
  T scale_;
  bool is_part_ = false;
  std::vector<T> qkv_;
  std::vector<T> shares_;  ///< p for every sample and head.
  std::vector<T> mixed_;
  std::vector<T> d_mixed_;
  std::vector<T> d_qkv_;
  std::vector<T> d_s_;  ///< Gradient of one head's scores q k / sqrt(D).
};

}  // namespace

AttentionPart attention_part(const LayerPlan& plan, const Range& heads) {
  check(heads.begin < heads.end && heads.end <= plan.spec.heads, "a part has heads of the layer");
  const AttentionOffsets at = attention_offsets(plan);
  const std::size_t width = plan.in[2];
  const std::size_t head = width / plan.spec.heads;
  const Range own{heads.begin * head, heads.end * head};
  AttentionPart part;
  for (std::size_t third = 0; third < 3; ++third) {
    const std::size_t row = third * width + own.begin;
    part.ranges.push_back(
        {at.qkv_weight + row * width, at.qkv_weight + (row + own.size()) * width});
  }
  for (std::size_t third = 0; third < 3; ++third) {
    const std::size_t begin = at.qkv_bias + third * width + own.begin;
    part.ranges.push_back({begin, begin + own.size()});
  }
  for (std::size_t row = 0; row < width; ++row) {
    const std::size_t begin = at.out_weight + row * width;
    part.ranges.push_back({begin + own.begin, begin + own.end});
  }
  part.ranges.push_back({at.out_bias, at.out_bias + width});
  part.out_bias = 4 * own.size() * width + 3 * own.size();
  return part;
}

template <class T>
std::unique_ptr<Layer<T>> make_attention_part(const LayerPlan& plan, const Range& heads) {
  return std::make_unique<Attention<T>>(plan, heads.size());
}

template std::unique_ptr<Layer<float>> make_attention_part(const LayerPlan&, const Range&);
template std::unique_ptr<Layer<double>> make_attention_part(const LayerPlan&, const Range&);

LayerFamily attention_layers() { return {make_one<Attention, float>, make_one<Attention, double>}; }

}  // namespace gv
