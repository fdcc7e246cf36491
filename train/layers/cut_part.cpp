// Computes one member's part of dense layers, dense pairs, attention, convolutions or embeddings.
#include "train/layers/cut_part.hpp"

#include <algorithm>
#include <utility>

#include "base/check.hpp"
#include "train/layers/cut_attention.hpp"
#include "train/layers/cut_dense.hpp"
#include "train/layers/functions.hpp"

namespace gv {
namespace {

bool is_dense(const LayerPlan& layer) {
  return layer.spec.kind == LayerKind::dense && !layer.spec.tied;
}

bool is_worth_a_sum(const LayerPlan& layer) { return layer.end - layer.begin >= cut_weights_min; }

std::size_t inputs_of(const LayerPlan& dense) { return elements(dense.in) / dense.rows; }

/// The number of values in an embedding's table of tokens, or in the weights of the layer tied to
/// it.
std::size_t table_of(const LayerPlan& layer) {
  return layer.spec.tied ? layer.spec.units * inputs_of(layer)
                         : layer.spec.vocabulary * layer.spec.units;
}

bool goes_by_model(const LayerPlan& layer) {
  if (layer.spec.split == LayerSplit::model) return true;
  if (layer.spec.split == LayerSplit::none) return false;
  if (layer.spec.kind == LayerKind::embedding || layer.spec.tied) {
    return table_of(layer) >= cut_table_min;
  }
  return layer.spec.kind != LayerKind::conv2d && is_worth_a_sum(layer);
}

/// Cuts a dense layer along its longer side, because that side can be divided more evenly.
DenseCut cut_of(const LayerPlan& dense) {
  return inputs_of(dense) > dense.spec.units ? DenseCut::inputs : DenseCut::outputs;
}

/// Appends the places of columns [part.begin, part.end) of a dense layer's weights.
void append_columns(const LayerPlan& dense, const Range& part, std::vector<Range>& ranges) {
  for (std::size_t row = 0; row < dense.spec.units; ++row) {
    const std::size_t begin = dense.weight + row * inputs_of(dense);
    ranges.push_back({begin + part.begin, begin + part.end});
  }
}

/// Appends the places of some rows of a layer's weights, and of the biases of these rows. A row
/// belongs to one output or channel.
void append_rows(const LayerPlan& layer, const Range& part, std::vector<Range>& ranges) {
  const std::size_t width = (layer.bias - layer.weight) / layer.spec.units;
  ranges.push_back({layer.weight + part.begin * width, layer.weight + part.end * width});
  ranges.push_back({layer.bias + part.begin, layer.bias + part.end});
}

/// Copies columns `part` of rows of `width` values to `own`. put_columns() copies them back, and
/// fills the other columns with zeros.
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

/// A layer with some outputs or inputs of a dense layer. Its parameter vector holds its weights and
/// then its biases.
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

/// A layer with some rows of an embedding's table of tokens. Its parameter vector holds these rows
/// and then the whole table of positions, which is added after the sum.
template <class T>
class TokensPart final : public Layer<T> {
 public:
  TokensPart(const LayerPlan& plan, const Range& part)
      : is_shared_(plan.is_shared),
        positions_(plan.in[0]),
        width_(plan.spec.units),
        last_(plan.spec.vocabulary - 1),
        part_(part) {}

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool, Rng&) override {
    std::fill_n(out, batch * positions_ * width_, T(0));
    each_own(in, batch, [&](std::size_t row, std::size_t token) {
      std::copy_n(parameters + token * width_, width_, out + row * width_);
    });
  }

  void backward_input(const T*, const T*, const T*, const T*, T* d_in, std::size_t batch) override {
    if (d_in != nullptr) std::fill_n(d_in, batch * positions_, T(0));
  }

  void backward_weight(const T*, const T* in, const T*, const T* d_out, T* d_parameters,
                       std::size_t batch) override {
    T* d_positions = d_parameters + part_.size() * width_;
    if (!is_shared_) std::fill(d_parameters, d_positions, T(0));
    std::fill_n(d_positions, positions_ * width_, T(0));
    each_own(in, batch, [&](std::size_t row, std::size_t token) {
      for (std::size_t i = 0; i < width_; ++i) {
        d_parameters[token * width_ + i] += d_out[row * width_ + i];
      }
    });
    for (std::size_t i = 0; i < batch * positions_ * width_; ++i) {
      d_positions[i % (positions_ * width_)] += d_out[i];
    }
  }

 private:
  /// Calls use(row, index of the row's token in our part) for each row whose token is ours.
  template <class Use>
  void each_own(const T* in, std::size_t batch, const Use& use) const {
    for (std::size_t row = 0; row < batch * positions_; ++row) {
      const std::size_t id = existing_id(in[row], last_);
      if (id >= part_.begin && id < part_.end) use(row, id - part_.begin);
    }
  }

  bool is_shared_;
  std::size_t positions_;
  std::size_t width_;
  std::size_t last_;
  Range part_;
};

/// A layer with some hidden units of two dense layers. Its parameter vector holds the weights and
/// biases of the first layer, and then those of the second.
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

/// A layer with some output channels of a convolution. Its parameter vector holds the channels'
/// weights and then their biases.
template <class T>
class ChannelsPart final : public Layer<T> {
 public:
  ChannelsPart(const LayerPlan& plan, const Range& part)
      : outputs_(elements(plan.out)),
        plane_(plan.out[1] * plan.out[2]),
        part_(part),
        own_plan_(plan) {
    own_plan_.spec.units = own_plan_.out[0] = part.size();
    own_plan_.begin = own_plan_.weight = 0;
    own_plan_.bias = (plan.bias - plan.weight) / plan.spec.units * part.size();
    own_plan_.end = own_plan_.bias + part.size();
    layer_ = make_layer<T>(own_plan_);
  }

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool training,
               Rng& rng) override {
    own_.resize(batch * elements(own_plan_.out));
    layer_->forward(parameters, in, own_.data(), batch, training, rng);
    put_columns(own_.data(), outputs_, columns(), batch, out);
  }

  void backward_input(const T* parameters, const T* in, const T*, const T* d_out, T* d_in,
                      std::size_t batch) override {
    d_own_.resize(own_.size());
    take_columns(d_out, outputs_, columns(), batch, d_own_.data());
    layer_->backward_input(parameters, in, own_.data(), d_own_.data(), d_in, batch);
  }

  void backward_weight(const T* parameters, const T* in, const T*, const T*, T* d_parameters,
                       std::size_t batch) override {
    layer_->backward_weight(parameters, in, own_.data(), d_own_.data(), d_parameters, batch);
  }

 private:
  /// The range of these channels' values in a sample's outputs.
  Range columns() const { return {part_.begin * plane_, part_.end * plane_}; }

  std::size_t outputs_;
  std::size_t plane_;  ///< Values of one channel.
  Range part_;
  LayerPlan own_plan_;
  std::unique_ptr<Layer<T>> layer_;
  std::vector<T> own_;
  std::vector<T> d_own_;
};

}  // namespace

bool is_of_each_value(LayerKind kind) {
  return kind == LayerKind::relu || kind == LayerKind::tanh || kind == LayerKind::gelu;
}

bool goes_by_classes(const LayerPlan& layer) {
  return layer.gives_logits && goes_by_model(layer) &&
         (layer.spec.tied || layer.spec.units > inputs_of(layer));
}

std::size_t layers_to_cut(std::span<const LayerPlan> layers, std::size_t first) {
  const LayerPlan& layer = layers[first];
  if (!goes_by_model(layer) || goes_by_classes(layer)) return 0;
  if (layer.spec.kind == LayerKind::embedding || layer.spec.kind == LayerKind::attention ||
      layer.spec.kind == LayerKind::conv2d) {
    return 1;
  }
  if (!is_dense(layer)) return 0;
  const bool is_pair = first + 2 < layers.size() && is_of_each_value(layers[first + 1].spec.kind) &&
                       is_dense(layers[first + 2]) && goes_by_model(layers[first + 2]) &&
                       !goes_by_classes(layers[first + 2]) && layers[first + 2].rows == layer.rows;
  return is_pair ? 3 : 1;
}

std::size_t grains(std::span<const LayerPlan> unit) {
  const LayerPlan& first = unit.front();
  if (first.spec.kind == LayerKind::attention) return first.spec.heads;
  if (first.spec.kind == LayerKind::conv2d) return first.spec.units;
  if (first.spec.kind == LayerKind::embedding) return first.spec.vocabulary;
  if (unit.size() == 1 && goes_by_classes(first)) return first.spec.units;
  return unit.size() == 1 ? std::max(inputs_of(first), first.spec.units) : first.spec.units;
}

Range biases_of(std::span<const LayerPlan> unit) {
  const LayerPlan& last = unit.back();
  if (last.spec.kind == LayerKind::attention) {
    const std::size_t begin = attention_offsets(last).out_bias;
    return {begin, begin + last.in[2]};
  }
  if (last.spec.kind == LayerKind::conv2d || goes_by_classes(last)) return {};
  if (last.spec.kind == LayerKind::embedding) {
    return {last.bias, last.bias + elements(last.out)};
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
    ranges.pop_back();  // Leaves out the biases of the output.
    return ranges;
  }
  if (last.spec.kind == LayerKind::embedding) {
    const std::size_t width = last.spec.units;
    return {{last.weight + grains.begin * width, last.weight + grains.end * width}};
  }
  if (last.spec.tied) return {{last.bias + grains.begin, last.bias + grains.end}};
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
  if (last.spec.kind == LayerKind::conv2d) return std::make_unique<ChannelsPart<T>>(last, grains);
  if (last.spec.kind == LayerKind::embedding) {
    return std::make_unique<TokensPart<T>>(last, grains);
  }
  if (unit.size() > 1) return std::make_unique<PairPart<T>>(unit, grains);
  return std::make_unique<DensePart<T>>(last, grains);
}

template std::unique_ptr<Layer<float>> make_cut_part(std::span<const LayerPlan>, const Range&);
template std::unique_ptr<Layer<double>> make_cut_part(std::span<const LayerPlan>, const Range&);

}  // namespace gv
