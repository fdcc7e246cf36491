// Dense layers, pairs of them and attention layers with some of their grains.
#include "train/layers/cut_part.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "train/layers/cut_attention.hpp"
#include "train/layers/cut_dense.hpp"

namespace gv {
namespace {

bool is_dense(const LayerPlan& layer) {
  return layer.spec.kind == LayerKind::dense && !layer.spec.tied;
}

/// True for activations of each value alone.
bool may_stand_in_pair(const LayerPlan& layer) {
  const LayerKind kind = layer.spec.kind;
  return kind == LayerKind::relu || kind == LayerKind::tanh || kind == LayerKind::gelu;
}

bool is_worth_a_sum(const LayerPlan& layer) { return layer.end - layer.begin >= cut_weights_min; }

std::size_t inputs_of(const LayerPlan& dense) { return elements(dense.in) / dense.rows; }

/// A dense layer is cut along its longer side, which can be divided more evenly.
DenseCut cut_of(const LayerPlan& dense) {
  return inputs_of(dense) > dense.spec.units ? DenseCut::inputs : DenseCut::outputs;
}

/// The places of columns [part.begin, part.end) of a dense layer's weights.
void append_columns(const LayerPlan& dense, const Range& part, std::vector<Range>& ranges) {
  for (std::size_t row = 0; row < dense.spec.units; ++row) {
    const std::size_t begin = dense.weight + row * inputs_of(dense);
    ranges.push_back({begin + part.begin, begin + part.end});
  }
}

/// The places of rows of a dense layer's weights and their biases.
void append_rows(const LayerPlan& dense, const Range& part, std::vector<Range>& ranges) {
  const std::size_t inputs = inputs_of(dense);
  ranges.push_back({dense.weight + part.begin * inputs, dense.weight + part.end * inputs});
  ranges.push_back({dense.bias + part.begin, dense.bias + part.end});
}

/// Copies columns of rows of `width` values, or back into them; others become zero.
template <class T>
void take_columns(const T* whole, std::size_t width, const Range& part, std::size_t rows, T* own) {
  for (std::size_t row = 0; row < rows; ++row) {
    std::copy_n(whole + row * width + part.begin, part.size(), own + row * part.size());
  }
}

template <class T>
void put_columns(const T* own, std::size_t width, const Range& part, std::size_t rows, T* whole) {
  std::fill_n(whole, rows * width, T(0));
  for (std::size_t row = 0; row < rows; ++row) {
    std::copy_n(own + row * part.size(), part.size(), whole + row * width + part.begin);
  }
}

/// Some outputs or inputs of a dense layer. Its vector holds its weights and then its biases.
template <class T>
class DensePart final : public Layer<T> {
 public:
  DensePart(const LayerPlan& plan, const Range& part)
      : cut_(cut_of(plan)),
        inputs_(inputs_of(plan)),
        outputs_(plan.spec.units),
        rows_(plan.rows),
        part_(part),
        dense_(cut_, inputs_, outputs_, part) {}

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool, Rng&) override {
    const std::size_t rows = batch * rows_;
    own_.resize(rows * part_.size());
    const T* biases = parameters + dense_.weights();
    if (by_inputs()) {
      take_columns(in, inputs_, part_, rows, own_.data());
      dense_.forward(parameters, biases, own_.data(), out, rows);
    } else {
      dense_.forward(parameters, biases, in, own_.data(), rows);
      put_columns(own_.data(), outputs_, part_, rows, out);
    }
  }

  void backward_input(const T* parameters, const T*, const T*, const T* d_out, T* d_in,
                      std::size_t batch) override {
    const std::size_t rows = batch * rows_;
    d_own_.resize(rows * part_.size());
    if (!by_inputs()) take_columns(d_out, outputs_, part_, rows, d_own_.data());
    if (d_in == nullptr) return;
    if (by_inputs()) {
      dense_.backward_input(parameters, d_out, d_own_.data(), rows);
      put_columns(d_own_.data(), inputs_, part_, rows, d_in);
    } else {
      dense_.backward_input(parameters, d_own_.data(), d_in, rows);
    }
  }

  void backward_weight(const T*, const T* in, const T*, const T* d_out, T* d_parameters,
                       std::size_t batch) override {
    dense_.backward_weight(by_inputs() ? own_.data() : in, by_inputs() ? d_out : d_own_.data(),
                           d_parameters, d_parameters + dense_.weights(), batch * rows_);
  }

 private:
  bool by_inputs() const { return cut_ == DenseCut::inputs; }

  DenseCut cut_;
  std::size_t inputs_;
  std::size_t outputs_;
  std::size_t rows_;
  Range part_;
  CutDense<T> dense_;
  std::vector<T> own_;    ///< The columns of the outputs or inputs that this part holds.
  std::vector<T> d_own_;  ///< The gradient of `own_`.
};

/// Some hidden units of two dense layers. Its vector holds weights and biases of the first, and
/// then of the second.
template <class T>
class PairPart final : public Layer<T> {
 public:
  PairPart(std::span<const LayerPlan> unit, const Range& part)
      : inputs_(inputs_of(unit[0])),
        rows_(unit[0].rows),
        pair_(inputs_, unit[0].spec.units, unit[2].spec.units, unit[1].spec.kind, part) {}

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool, Rng&) override {
    pair_.forward(tensors(parameters), in, out, batch * rows_);
  }

  void backward_input(const T* parameters, const T*, const T*, const T* d_out, T* d_in,
                      std::size_t batch) override {
    pair_.backward_input(tensors(parameters), d_out, d_in, batch * rows_);
  }

  void backward_weight(const T*, const T* in, const T*, const T* d_out, T* d_parameters,
                       std::size_t batch) override {
    pair_.backward_weight(in, d_out, tensors(d_parameters), batch * rows_);
  }

 private:
  template <class Value>
  typename CutPair<T>::template Parameters<Value> tensors(Value* own) const {
    Value* second = own + pair_.first().weights() + pair_.first().biases();
    return {own, own + pair_.first().weights(), second, second + pair_.second().weights()};
  }

  std::size_t inputs_;
  std::size_t rows_;
  CutPair<T> pair_;
};

}  // namespace

std::size_t layers_to_cut(std::span<const LayerPlan> layers, std::size_t first) {
  const LayerPlan& layer = layers[first];
  if (!is_worth_a_sum(layer)) return 0;
  if (layer.spec.kind == LayerKind::attention) return 1;
  if (!is_dense(layer)) return 0;
  const bool is_pair = first + 2 < layers.size() && may_stand_in_pair(layers[first + 1]) &&
                       is_dense(layers[first + 2]) && is_worth_a_sum(layers[first + 2]) &&
                       layers[first + 2].rows == layer.rows;
  return is_pair ? 3 : 1;
}

std::size_t grains(std::span<const LayerPlan> unit) {
  const LayerPlan& first = unit.front();
  if (first.spec.kind == LayerKind::attention) return first.spec.heads;
  return unit.size() == 1 ? std::max(inputs_of(first), first.spec.units) : first.spec.units;
}

Range biases_of(std::span<const LayerPlan> unit) {
  const LayerPlan& last = unit.back();
  if (last.spec.kind == LayerKind::attention) {
    const std::size_t begin = attention_offsets(last).out_bias;
    return {begin, begin + last.in[2]};
  }
  if (unit.size() == 1 && cut_of(last) == DenseCut::outputs) return {};
  return {last.bias, last.bias + last.spec.units};
}

std::vector<Range> cut_ranges(std::span<const LayerPlan> unit, const Range& grains) {
  std::vector<Range> ranges;
  if (grains.empty()) return ranges;
  const LayerPlan& last = unit.back();
  if (last.spec.kind == LayerKind::attention) {
    ranges = attention_part(last, grains).ranges;
    ranges.pop_back();  // The biases of the output.
    return ranges;
  }
  if (unit.size() > 1) append_rows(unit[0], grains, ranges);
  if (biases_of(unit).empty()) {
    append_rows(last, grains, ranges);
  } else {
    append_columns(last, grains, ranges);
  }
  return ranges;
}

template <class T>
std::unique_ptr<Layer<T>> make_cut_part(std::span<const LayerPlan> unit, const Range& grains) {
  if (grains.empty()) return nullptr;
  const LayerPlan& last = unit.back();
  if (last.spec.kind == LayerKind::attention) return make_attention_part<T>(last, grains);
  if (unit.size() > 1) return std::make_unique<PairPart<T>>(unit, grains);
  return std::make_unique<DensePart<T>>(last, grains);
}

template std::unique_ptr<Layer<float>> make_cut_part(std::span<const LayerPlan>, const Range&);
template std::unique_ptr<Layer<double>> make_cut_part(std::span<const LayerPlan>, const Range&);

}  // namespace gv
