// Strips of images, and which rows they read.
#include "train/layers/cut_rows.hpp"

#include <algorithm>
#include <limits>
#include <vector>

#include "base/check.hpp"
#include "train/layers/cut_part.hpp"

namespace gv {
namespace {

/// Calls visit(offset in the strip, offset in the padded strip) for each row of each plane.
template <class Visit>
void each_padded_row(const LayerPlan& strip, const RowsRead& read, std::size_t width,
                     std::size_t padding, std::size_t batch, Visit visit) {
  const std::size_t height = strip.in[1];
  for (std::size_t plane = 0; plane < batch * strip.in[0]; ++plane) {
    for (std::size_t row = 0; row < read.rows.size(); ++row) {
      const std::size_t place = plane * height + read.zeros_above + row;
      visit((plane * read.rows.size() + row) * width, place * strip.in[2] + padding);
    }
  }
}

/// A layer with windows. The strip with its padding zeros is a layer without padding.
template <class T>
class WindowRows final : public Layer<T> {
 public:
  WindowRows(const LayerPlan& layer, const Range& outputs)
      : whole_(layer), read_(rows_read(layer, outputs)), strip_(layer) {
    strip_.spec.padding = 0;
    strip_.in[1] = read_.zeros_above + read_.rows.size() + read_.zeros_below;
    strip_.in[2] = layer.in[2] + 2 * layer.spec.padding;
    strip_.out[1] = outputs.size();
    if (!outputs.empty()) layer_ = make_layer<T>(strip_);
  }

  void forward(const T* parameters, const T* in, T* out, std::size_t batch, bool training,
               Rng& rng) override {
    if (!layer_) return;
    const std::size_t width = whole_.in[2];
    // Padding is never the largest value of a window.
    const bool is_max = whole_.spec.kind == LayerKind::max_pool;
    padded_.assign(batch * elements(strip_.in), is_max ? std::numeric_limits<T>::lowest() : T(0));
    each_padded_row(strip_, read_, width, whole_.spec.padding, batch,
                    [&](std::size_t own, std::size_t at) {
                      std::copy_n(in + own, width, padded_.data() + at);
                    });
    layer_->forward(parameters, padded_.data(), out, batch, training, rng);
  }

  void backward_input(const T* parameters, const T*, const T* out, const T* d_out, T* d_in,
                      std::size_t batch) override {
    if (!layer_) return;
    const bool is_wanted = d_in != nullptr;
    if (is_wanted) d_padded_.resize(padded_.size());
    layer_->backward_input(parameters, padded_.data(), out, d_out,
                           is_wanted ? d_padded_.data() : nullptr, batch);
    if (!is_wanted) return;
    const std::size_t width = whole_.in[2];
    each_padded_row(strip_, read_, width, whole_.spec.padding, batch,
                    [&](std::size_t own, std::size_t at) {
                      std::copy_n(d_padded_.data() + at, width, d_in + own);
                    });
  }

  void backward_weight(const T* parameters, const T*, const T* out, const T* d_out, T* d_parameters,
                       std::size_t batch) override {
    if (layer_) {
      layer_->backward_weight(parameters, padded_.data(), out, d_out, d_parameters, batch);
    } else {
      std::fill(d_parameters + whole_.begin, d_parameters + whole_.end, T(0));
    }
  }

 private:
  LayerPlan whole_;
  RowsRead read_;
  LayerPlan strip_;
  std::unique_ptr<Layer<T>> layer_;  ///< Null without outputs.
  std::vector<T> padded_;
  std::vector<T> d_padded_;
};

}  // namespace

bool slides_over_rows(LayerKind kind) {
  return kind == LayerKind::conv2d || kind == LayerKind::max_pool || kind == LayerKind::avg_pool;
}

RowsRead rows_read(const LayerPlan& layer, const Range& outputs) {
  check(slides_over_rows(layer.spec.kind), "windows slide over rows");
  if (outputs.empty()) return {};
  const std::size_t padding = layer.spec.padding;
  const std::size_t height = layer.in[1];
  // Counted from the first row of padding.
  const std::size_t begin = outputs.begin * layer.spec.stride;
  const std::size_t end = (outputs.end - 1) * layer.spec.stride + layer.spec.kernel;
  RowsRead read{.zeros_above = std::min(end, padding) - std::min(begin, padding)};
  const std::size_t last = padding + height;
  read.zeros_below = std::max(end, last) - std::max(begin, last);
  read.rows.begin = std::clamp(begin, padding, last) - padding;
  read.rows.end = std::clamp(end, padding, last) - padding;
  return read;
}

template <class T>
std::unique_ptr<Layer<T>> make_rows_part(const LayerPlan& layer, const Range& outputs) {
  check(outputs.end <= layer.out[1], "a strip has rows of the output");
  if (slides_over_rows(layer.spec.kind)) return std::make_unique<WindowRows<T>>(layer, outputs);
  check(is_of_each_value(layer.spec.kind), "rows of a layer are computed without the others");
  LayerPlan strip = layer;
  strip.in[1] = strip.out[1] = outputs.size();
  return make_layer<T>(strip);
}

template std::unique_ptr<Layer<float>> make_rows_part(const LayerPlan&, const Range&);
template std::unique_ptr<Layer<double>> make_rows_part(const LayerPlan&, const Range&);

}  // namespace gv
