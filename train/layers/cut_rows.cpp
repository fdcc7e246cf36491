// Strips of images, and the rows that they read.
#include "train/layers/cut_rows.hpp"

#include <algorithm>
#include <limits>
#include <type_traits>
#include <vector>

#include "base/check.hpp"
#include "train/layers/cut_part.hpp"
#include "train/layers/network.hpp"

namespace gv {
namespace {

/// Makes the network of a strip: oneDNN's for float, if the build has oneDNN.
template <class T>
std::unique_ptr<Network<T>> network_of(const ModelPlan& plan, std::size_t batch) {
  if constexpr (std::is_same_v<T, float>) {
    return make_network(plan, batch);
  } else {
    return make_plain_network<T>(plan, batch);
  }
}

std::size_t padding_of(const LayerPlan& layer) {
  return slides_over_rows(layer.spec.kind) ? layer.spec.padding : 0;
}

/// A strip of some layers. It writes its padding into the input beforehand, so the layers inside it
/// need no padding.
template <class T>
class RowsPart final : public Layer<T> {
 public:
  RowsPart(std::span<const LayerPlan> layers, const Range& outputs, std::size_t batch)
      : batch_(batch), first_(layers.front()) {
    if (outputs.empty()) return;
    ModelPlan strip{.layers = {layers.begin(), layers.end()}, .layout = {}};
    read_.rows = outputs;
    for (auto layer = strip.layers.rbegin(); layer != strip.layers.rend(); ++layer) {
      layer->out[1] = read_.rows.size();
      if (slides_over_rows(layer->spec.kind)) read_ = rows_read(*layer, read_.rows);
      layer->in[1] = read_.zeros_above + read_.rows.size() + read_.zeros_below;
      layer->in[2] += 2 * padding_of(*layer);
      layer->spec.padding = 0;
    }
    strip.in = in_ = strip.layers.front().in;
    strip.outputs = elements(strip.layers.back().out);
    size_ = batch * strip.outputs;
    network_ = network_of<T>(strip, batch);
  }

  void forward(const T* parameters, const T* in, T* out, std::size_t, bool training,
               Rng& rng) override {
    if (!network_) return;
    // Padding must never be the largest value of a window.
    const bool is_max = first_.spec.kind == LayerKind::max_pool;
    padded_.assign(batch_ * elements(in_), is_max ? std::numeric_limits<T>::lowest() : T(0));
    each_padded_row([&](std::size_t own, std::size_t at) {
      std::copy_n(in + own, first_.in[2], padded_.data() + at);
    });
    std::ranges::copy(network_->forward({parameters, first_.end}, padded_, training, rng), out);
  }

  void backward_input(const T* parameters, const T*, const T*, const T* d_out, T* d_in,
                      std::size_t) override {
    if (!network_) return;
    const std::span<const T> d_padded =
        network_->backward_input({parameters, first_.end}, {d_out, size_}, d_in != nullptr);
    if (d_in == nullptr) return;
    each_padded_row([&](std::size_t own, std::size_t at) {
      std::copy_n(d_padded.data() + at, first_.in[2], d_in + own);
    });
  }

  void backward_weight(const T* parameters, const T*, const T*, const T*, T* d_parameters,
                       std::size_t) override {
    if (network_) {
      network_->backward_weight({parameters, first_.end}, {d_parameters, first_.end});
    } else {
      std::fill(d_parameters + first_.begin, d_parameters + first_.end, T(0));
    }
  }

 private:
  /// Calls visit(offset in the rows read, offset in the padded strip) for each row of each plane.
  template <class Visit>
  void each_padded_row(Visit visit) const {
    for (std::size_t plane = 0; plane < batch_ * in_[0]; ++plane) {
      for (std::size_t row = 0; row < read_.rows.size(); ++row) {
        const std::size_t place = plane * in_[1] + read_.zeros_above + row;
        visit((plane * read_.rows.size() + row) * first_.in[2],
              place * in_[2] + padding_of(first_));
      }
    }
  }

  std::size_t batch_;
  LayerPlan first_;       ///< The first layer, planned for whole images. It alone has parameters.
  RowsRead read_;         ///< The rows that the first layer reads.
  SampleShape in_{};      ///< Shape of the strip with its padding.
  std::size_t size_ = 0;  ///< Values in the outputs of a batch.
  std::unique_ptr<Network<T>> network_;  ///< Null if this member has no outputs.
  std::vector<T> padded_;
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
  // Rows are counted from the first row of padding.
  const std::size_t begin = outputs.begin * layer.spec.stride;
  const std::size_t end = (outputs.end - 1) * layer.spec.stride + layer.spec.kernel;
  RowsRead read{.zeros_above = std::min(end, padding) - std::min(begin, padding)};
  const std::size_t last = padding + height;
  read.zeros_below = std::max(end, last) - std::max(begin, last);
  read.rows.begin = std::clamp(begin, padding, last) - padding;
  read.rows.end = std::clamp(end, padding, last) - padding;
  return read;
}

bool follows_in_strip(const LayerPlan& layer) {
  const LayerKind kind = layer.spec.kind;
  return is_of_each_value(kind) ||
         (slides_over_rows(kind) && kind != LayerKind::conv2d && layer.spec.padding == 0);
}

Range rows_read_by(std::span<const LayerPlan> layers, const Range& outputs) {
  Range rows = outputs;
  for (auto layer = layers.rbegin(); layer != layers.rend(); ++layer) {
    if (slides_over_rows(layer->spec.kind)) rows = rows_read(*layer, rows).rows;
  }
  return rows;
}

template <class T>
std::unique_ptr<Layer<T>> make_rows_part(std::span<const LayerPlan> layers, const Range& outputs,
                                         std::size_t batch) {
  check(outputs.end <= layers.back().out[1], "a strip has rows of the output");
  const LayerPlan& first = layers.front();
  if (first.spec.kind == LayerKind::dropout) {
    check(layers.size() == 1, "a dropout has a part of its own");
    return make_dropout_of_rows<T>(first, outputs);
  }
  check(slides_over_rows(first.spec.kind) || is_of_each_value(first.spec.kind),
        "rows of a layer are computed without the others");
  check(std::ranges::all_of(layers.subspan(1), follows_in_strip),
        "layers of a strip need no rows of other members");
  return std::make_unique<RowsPart<T>>(layers, outputs, batch);
}

template std::unique_ptr<Layer<float>> make_rows_part(std::span<const LayerPlan>, const Range&,
                                                      std::size_t);
template std::unique_ptr<Layer<double>> make_rows_part(std::span<const LayerPlan>, const Range&,
                                                       std::size_t);

}  // namespace gv
