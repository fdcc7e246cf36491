// A network that uses oneDNN for dense layers, convolutions and pools. Between convolutions and
// pools, activations stay in oneDNN's blocked layouts; they are converted to plain memory order for
// dense layers and for our own layers.
#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "train/layers/branch.hpp"
#include "train/layers/compute_scope.hpp"
#include "train/layers/functions.hpp"
#include "train/layers/layer.hpp"
#include "train/layers/network.hpp"
#include "train/layers/onednn_steps.hpp"

namespace gv {
namespace {

/// One of our own layers, on plain memory.
class PlainStep final : public OnednnStep {
 public:
  PlainStep(OnednnContext& context, const LayerPlan& plan, Activations& in, Activations& out)
      : layer_(make_layer<float>(plan)), batch_(batch_of(context)), in_(in), out_(out) {}

  void forward(const float* parameters, bool training, Rng& rng) override {
    layer_->forward(parameters, values_of(in_), values_of(out_), batch_, training, rng);
  }

  void backward_input(const float* parameters, bool wanted) override {
    layer_->backward_input(parameters, values_of(in_), values_of(out_), gradient_of(out_),
                           wanted ? gradient_of(in_) : nullptr, batch_);
  }

  void backward_weight(const float* parameters, float* gradient) override {
    layer_->backward_weight(parameters, values_of(in_), values_of(out_), gradient_of(out_),
                            gradient, batch_);
  }

 private:
  std::unique_ptr<Layer<float>> layer_;
  std::size_t batch_;
  Activations& in_;
  Activations& out_;
};

/// A step before the layers inside a residual layer. In the backward pass, it adds the gradient
/// through the shortcut to the gradient of these layers' input.
class ForkStep final : public OnednnStep {
 public:
  ForkStep(const OnednnContext& context, Activations& in)
      : size_(batch_of(context) * elements(shape_of(in))), in_(in), beside_(size_) {}
  /// The gradient of the input through the shortcut, which JoinStep writes.
  std::span<float> beside() { return beside_; }

  void forward(const float*, bool, Rng&) override {}
  void backward_input(const float*, bool wanted) override {
    if (wanted) add_to(beside_.data(), gradient_of(in_), size_);
  }

 private:
  std::size_t size_;
  Activations& in_;
  std::vector<float> beside_;
};

/// A step after the layers inside a residual layer. It adds these layers' input, or a projection of
/// it, to their output. A projection is cheap compared with the layers, so it runs on plain memory.
class JoinStep final : public OnednnStep {
 public:
  JoinStep(const OnednnContext& context, const LayerPlan& plan, Activations& in,
           Activations& inside, Activations& out, ForkStep& fork)
      : shortcut_(plan.shortcut),
        batch_(batch_of(context)),
        size_(batch_ * elements(plan.out)),
        in_(in),
        inside_(inside),
        out_(out),
        fork_(fork) {}

  void forward(const float* parameters, bool training, Rng& rng) override {
    const float* beside = shortcut_.forward(parameters, values_of(in_), batch_, training, rng);
    std::copy_n(beside, size_, values_of(out_));
    add_to(values_of(inside_), values_of(out_), size_);
  }
  void backward_input(const float* parameters, bool) override {
    std::copy_n(gradient_of(out_), size_, gradient_of(inside_));
    shortcut_.backward_input(parameters, values_of(in_), gradient_of(out_), fork_.beside().data(),
                             batch_, size_);
  }
  void backward_weight(const float* parameters, float* gradient) override {
    shortcut_.backward_weight(parameters, values_of(in_), gradient, batch_);
  }

 private:
  Branch<float> shortcut_;
  std::size_t batch_;
  std::size_t size_;
  Activations& in_;
  Activations& inside_;
  Activations& out_;
  ForkStep& fork_;
};

/// Gives a concat's input to one of its layers. In the backward pass the last layer comes first and
/// overwrites the gradient of the input; the others add to it.
class BranchStep final : public OnednnStep {
 public:
  BranchStep(const OnednnContext& context, bool is_last, Activations& in, Activations& own)
      : size_(batch_of(context) * elements(shape_of(in))), is_last_(is_last), in_(in), own_(own) {}

  void forward(const float*, bool, Rng&) override {
    std::copy_n(values_of(in_), size_, values_of(own_));
  }
  void backward_input(const float*, bool wanted) override {
    if (!wanted) return;
    if (is_last_) std::fill_n(gradient_of(in_), size_, 0.0F);
    add_to(gradient_of(own_), gradient_of(in_), size_);
  }

 private:
  std::size_t size_;
  bool is_last_;
  Activations& in_;
  Activations& own_;
};

/// Joins the outputs of a concat's layers along the channels.
class ConcatStep final : public OnednnStep {
 public:
  ConcatStep(const OnednnContext& context, std::vector<Activations*> parts, Activations& out)
      : batch_(batch_of(context)), parts_(std::move(parts)), out_(out) {}

  void forward(const float*, bool, Rng&) override {
    each_piece(values_of, [](float* whole, const float* piece, std::size_t size) {
      std::copy_n(piece, size, whole);
    });
  }
  void backward_input(const float*, bool) override {
    each_piece(gradient_of, [](const float* whole, float* piece, std::size_t size) {
      std::copy_n(whole, size, piece);
    });
  }

 private:
  /// Calls visit(the piece's place in the joined outputs, the piece, its size) for each sample and
  /// layer.
  template <class Visit>
  void each_piece(float* (*of)(const Activations&), Visit visit) {
    const std::size_t size = elements(shape_of(out_));
    std::size_t offset = 0;
    for (Activations* part : parts_) {
      const std::size_t width = elements(shape_of(*part));
      for (std::size_t n = 0; n < batch_; ++n) {
        visit(of(out_) + n * size + offset, of(*part) + n * width, width);
      }
      offset += width;
    }
  }

  std::size_t batch_;
  std::vector<Activations*> parts_;
  Activations& out_;
};

/// True for a dense layer or a convolution that oneDNN computes in this network.
bool is_carried(const LayerPlan& layer) {
  const ConvolutionMethod method = layer.spec.convolution;
  return layer.spec.kind == LayerKind::dense ||
         (layer.spec.kind == LayerKind::conv2d &&
          (method == ConvolutionMethod::direct || method == ConvolutionMethod::winograd));
}

class OnednnNetwork final : public Network<float> {
 public:
  OnednnNetwork(const ModelPlan& plan, std::size_t batch)
      : context_(make_onednn_context(batch)), outputs_(plan.outputs) {
    use_one_thread();
    tensors_.push_back(make_input_activations(*context_, plan.in));
    append_layers(plan.layers);
    make_plain();
    begins_.resize(steps_.size(), plan.layout.size());
    if (!trained_) first_trained_ = steps_.size();
  }

  void give_factors(std::span<const std::size_t> weights) override {
    gv::give_factors(*context_, weights);
  }

  std::span<const float> forward(std::span<const float> parameters, std::span<const float> inputs,
                                 bool training, Rng& rng) override {
    const ComputeScope scope;
    use_one_thread();
    set_values(*tensors_.front(), inputs.data());
    for (const auto& step : steps_) step->forward(parameters.data(), training, rng);
    wait_for(*context_);
    return {values_of(*tensors_.back()), batch_of(*context_) * outputs_};
  }

  std::span<const float> backward(std::span<const float> parameters,
                                  std::span<const float> d_outputs, std::span<float> gradient,
                                  const ReadyRange& ready, bool want_d_inputs) override {
    const ComputeScope scope;
    use_one_thread();
    std::size_t done = gradient.size();
    std::ranges::copy(d_outputs, gradient_of(*tensors_.back()));
    for (std::size_t i = steps_.size(); i-- > first_needed(want_d_inputs);) {
      input_part(i, parameters, want_d_inputs);
      weight_part(i, parameters, gradient, ready, done);
    }
    wait_for(*context_);
    return d_inputs(want_d_inputs);
  }

  std::span<const float> backward_input(std::span<const float> parameters,
                                        std::span<const float> d_outputs,
                                        bool want_d_inputs) override {
    const ComputeScope scope;
    use_one_thread();
    std::ranges::copy(d_outputs, gradient_of(*tensors_.back()));
    for (std::size_t i = steps_.size(); i-- > first_needed(want_d_inputs);) {
      input_part(i, parameters, want_d_inputs);
    }
    wait_for(*context_);
    return d_inputs(want_d_inputs);
  }

  void backward_weight(std::span<const float> parameters, std::span<float> gradient,
                       const ReadyRange& ready) override {
    const ComputeScope scope;
    use_one_thread();
    std::size_t done = gradient.size();
    for (std::size_t i = steps_.size(); i-- > first_trained_;) {
      weight_part(i, parameters, gradient, ready, done);
    }
    wait_for(*context_);
  }

 private:
  /// A network computes with one thread. OpenMP stores the number of threads for each calling
  /// thread, so it must be set on the thread that computes.
  static void use_one_thread() { omp_set_num_threads(1); }

  std::size_t first_needed(bool want_d_inputs) const { return want_d_inputs ? 0 : first_trained_; }
  std::span<const float> d_inputs(bool wanted) const {
    if (!wanted) return {};
    return {gradient_of(*tensors_.front()),
            batch_of(*context_) * elements(shape_of(*tensors_.front()))};
  }

  void input_part(std::size_t i, std::span<const float> parameters, bool want_d_inputs) {
    steps_[i]->backward_input(parameters.data(), want_d_inputs || i > first_trained_);
  }

  void weight_part(std::size_t i, std::span<const float> parameters, std::span<float> gradient,
                   const ReadyRange& ready, std::size_t& done) {
    steps_[i]->backward_weight(parameters.data(), gradient.data());
    const std::size_t end = std::exchange(done, begins_[i]);
    if (!ready || done == end) return;
    wait_for(*context_);
    ready(done, end);
  }

  void append_layers(const std::vector<LayerPlan>& layers) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const LayerPlan& layer = layers[i];
      const bool carried = is_carried(layer);
      const bool relu =
          carried && i + 1 < layers.size() && layers[i + 1].spec.kind == LayerKind::relu;
      if (!trained_ && layer.has_parameters()) {
        trained_ = true;
        first_trained_ = steps_.size();
      }
      const bool pooled =
          relu && i + 2 < layers.size() && layers[i + 2].spec.kind == LayerKind::max_pool;
      if (layer.spec.kind == LayerKind::residual) {
        append_residual(layer);
      } else if (layer.spec.kind == LayerKind::stack) {
        append_layers(layer.layers);
      } else if (layer.spec.kind == LayerKind::concat) {
        append_concat(layer);
      } else {
        add(layer, relu, pooled);
        // Only the last step of a layer has parameters.
        begins_.resize(steps_.size(), layer.begin);
      }
      if (relu) ++i;
    }
  }

  void append_residual(const LayerPlan& layer) {
    make_plain();
    begins_.resize(steps_.size(), layer.begin);
    Activations& in = *tensors_.back();
    auto fork = std::make_unique<ForkStep>(*context_, in);
    ForkStep& forked = *fork;
    steps_.push_back(std::move(fork));
    begins_.push_back(layer.begin);
    append_layers(layer.layers);
    make_plain();
    Activations& inside = *tensors_.back();
    Activations& out = append_plain(layer.out);
    steps_.push_back(std::make_unique<JoinStep>(*context_, layer, in, inside, out, forked));
    // The shortcut's parameters come last in the layer.
    begins_.resize(steps_.size(),
                   layer.shortcut.empty() ? layer.end : layer.shortcut.front().begin);
  }

  void append_concat(const LayerPlan& layer) {
    make_plain();
    begins_.resize(steps_.size(), layer.begin);
    Activations& in = *tensors_.back();
    std::vector<Activations*> parts;
    for (const LayerPlan& inner : layer.layers) {
      const bool is_last = &inner == &layer.layers.back();
      Activations& own = append_plain(layer.in);
      steps_.push_back(std::make_unique<BranchStep>(*context_, is_last, in, own));
      begins_.push_back(inner.begin);
      append_layers({inner});
      make_plain();
      begins_.resize(steps_.size(), inner.end);
      parts.push_back(tensors_.back().get());
    }
    Activations& out = append_plain(layer.out);
    steps_.push_back(std::make_unique<ConcatStep>(*context_, std::move(parts), out));
    begins_.resize(steps_.size(), layer.end);
  }

  Activations& append(ActivationsPtr activations) {
    return *tensors_.emplace_back(std::move(activations));
  }

  Activations& append_plain(const SampleShape& shape) {
    return append(make_plain_activations(*context_, shape));
  }

  void make_plain() {
    if (tensors_.size() == 1 || is_plain(*context_, *tensors_.back())) return;
    Activations& in = *tensors_.back();
    Activations& out = append_plain(shape_of(in));
    steps_.push_back(make_reorder_step(*context_, in, out));
  }

  void add(const LayerPlan& layer, bool relu, bool pooled) {
    const LayerKind kind = layer.spec.kind;
    const bool is_pool = kind == LayerKind::max_pool || kind == LayerKind::avg_pool;
    const bool carried = is_carried(layer);
    const bool chooses_layout = (carried && kind == LayerKind::conv2d) || is_pool;
    if (!chooses_layout) make_plain();
    Activations& in = *tensors_.back();
    if (kind == LayerKind::flatten && tensors_.size() > 1) {
      // Only the shape changes here, since all later layers accept plain memory of any shape.
      append(make_reshaped_activations(*context_, in, layer.out));
      return;
    }
    Activations& out =
        chooses_layout ? append(make_open_activations(layer.out)) : append_plain(layer.out);
    if (carried && kind == LayerKind::conv2d) {
      steps_.push_back(make_convolution_step(*context_, layer, relu, pooled, in, out));
      gate_in_pool_ = pooled;
    } else if (is_pool) {
      const bool gates = std::exchange(gate_in_pool_, false);
      steps_.push_back(make_pool_step(*context_, layer, gates, in, out));
    } else if (carried) {
      steps_.push_back(make_dense_step(*context_, layer, relu, in, out));
    } else {
      steps_.push_back(std::make_unique<PlainStep>(*context_, layer, in, out));
    }
  }

  std::shared_ptr<OnednnContext> context_;
  std::size_t outputs_;
  std::vector<ActivationsPtr> tensors_;
  std::vector<OnednnStepPtr> steps_;
  std::vector<std::size_t> begins_;  ///< Where each step's parameters begin in the flat vector.
  bool trained_ = false;             ///< True if a layer added so far has parameters.
  std::size_t first_trained_ = 0;    ///< Index of the first step that has parameters.
  bool gate_in_pool_ = false;        ///< True if the next pool also does the ReLU's backward pass.
};

}  // namespace

std::unique_ptr<Network<float>> make_onednn_network(const ModelPlan& plan, std::size_t batch) {
  return std::make_unique<OnednnNetwork>(plan, batch);
}

}  // namespace gv
