// oneDNN carries dense layers, convolutions and pools; activations stay in its blocked layouts
// between them, and go back to plain memory order only for a layer of ours.
#include <omp.h>

#include <algorithm>
#include <cstddef>
#include <dnnl.hpp>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/check.hpp"
#include "base/wide.hpp"
#include "train/layers/layer.hpp"
#include "train/layers/network.hpp"
#include "train/layers/signals_held.hpp"

namespace gv {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using Arguments = std::unordered_map<int, memory>;
using tag = memory::format_tag;

constexpr auto f32 = memory::data_type::f32;

memory::dim dim(std::size_t value) { return static_cast<memory::dim>(value); }

/// What all steps share.
struct Context {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::size_t batch = 0;
  std::vector<std::size_t> factored;  ///< Offsets of weights: see Network::give_factors().

  memory::desc plain(const SampleShape& shape) const {
    return {{dim(batch), dim(shape[0]), dim(shape[1]), dim(shape[2])}, f32, tag::nchw};
  }
  memory make(const memory::desc& desc) const { return {desc, engine}; }
  /// A view of somebody else's memory, set before each use.
  memory view(const memory::desc& desc) const { return {desc, engine, nullptr}; }

  /// Scratch space all operations share, one after the other. oneDNN's own belongs to the thread
  /// that made an operation, and a model is made by another thread than the one that trains it.
  std::vector<std::byte> scratch;
};

/// An operation bound to its memories. They are handles: what they point to may change between
/// runs.
class Operation {
 public:
  Operation() = default;

  template <class Description>
  Operation(Context& context, const Description& description, dnnl::primitive primitive,
            Arguments arguments)
      : context_(&context),
        primitive_(std::move(primitive)),
        scratch_(context.view(description.scratchpad_desc())),
        arguments_(std::move(arguments)) {
    arguments_.emplace(DNNL_ARG_SCRATCHPAD, scratch_);
    // A little more, because the start is aligned to a cache line.
    const std::size_t needed = description.scratchpad_desc().get_size() + cache_line;
    if (context.scratch.size() < needed) context.scratch.resize(needed);
  }

  void run() {
    void* start = context_->scratch.data();
    std::size_t room = context_->scratch.size();
    scratch_.set_data_handle(std::align(cache_line, 1, start, room));
    primitive_.execute(context_->stream, arguments_);
  }

  explicit operator bool() const { return context_ != nullptr; }

 private:
  static constexpr std::size_t cache_line = 64;

  Context* context_ = nullptr;
  dnnl::primitive primitive_;
  memory scratch_;
  Arguments arguments_;
};

dnnl::primitive_attr own_scratch() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

Operation reorder(Context& context, const memory& from, const memory& to) {
  const dnnl::reorder::primitive_desc description(context.engine, from.get_desc(), context.engine,
                                                  to.get_desc(), own_scratch());
  return {
      context, description, dnnl::reorder(description), {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

/// Activations between two steps: values, and their gradient in the same layout.
struct Tensor {
  SampleShape shape{};
  memory values;
  memory gradient;

  /// Of a tensor in plain memory.
  std::size_t size() const { return values.get_desc().get_size() / sizeof(float); }
  bool is_plain(const Context& context) const { return values.get_desc() == context.plain(shape); }
};

float* floats(const memory& memory) { return static_cast<float*>(memory.get_data_handle()); }

GV_WIDE void add(const float* __restrict x, float* __restrict sum, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) sum[i] += x[i];
}

/// The gradient through a ReLU that was fused into the step before, on whatever layout:
/// element-wise.
GV_WIDE void gate(const float* __restrict y, float* __restrict dy, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) dy[i] = y[i] > 0 ? dy[i] : 0;
}

void gate_by_relu(const Tensor& out) {
  gate(floats(out.values), floats(out.gradient), out.values.get_desc().get_size() / sizeof(float));
}

dnnl::primitive_attr fused(bool relu) {
  dnnl::primitive_attr attributes = own_scratch();
  if (relu) {
    dnnl::post_ops operations;
    operations.append_eltwise(1.0f, algorithm::eltwise_relu, 0.0f, 0.0f);
    attributes.set_post_ops(operations);
  }
  return attributes;
}

/// One or two fused layers between an input and an output tensor.
class Step {
 public:
  virtual ~Step() = default;
  virtual void forward(const float* parameters, bool training, Rng& rng) = 0;
  /// Makes the output's gradient what the weights need and, if `wanted`, the input's from it.
  virtual void backward_input(const float* parameters, bool wanted) = 0;
  virtual void backward_weight(const float* /*parameters*/, float* /*gradient*/) {}
};

/// Changes the memory layout, and back for the gradient.
class Reorder final : public Step {
 public:
  Reorder(Context& context, Tensor& in, Tensor& out)
      : there_(reorder(context, in.values, out.values)),
        back_(reorder(context, out.gradient, in.gradient)) {}

  void forward(const float*, bool, Rng&) override { there_.run(); }
  void backward_input(const float*, bool wanted) override {
    if (wanted) back_.run();
  }

 private:
  Operation there_;
  Operation back_;
};

/// Dense layers work on plain memory straight from and into the flat vectors: at the batch sizes of
/// training, packing the weights costs more than it saves.
class DenseStep final : public Step {
 public:
  DenseStep(Context& context, const LayerPlan& plan, bool relu, Tensor& in, Tensor& out)
      : context_(context), plan_(plan), relu_(relu), in_(in), out_(out) {
    const memory::dim rows = dim(context.batch * plan.rows);
    const memory::dim inputs = dim(elements(plan.in) / plan.rows);
    const memory::dim outputs = dim(plan.spec.units);
    const memory::desc x({rows, inputs}, f32, tag::ab);
    const memory::desc w({outputs, inputs}, f32, tag::ab);
    const memory::desc b({outputs}, f32, tag::a);
    const memory::desc y({rows, outputs}, f32, tag::ab);
    x_ = context.view(x);
    y_ = memory(y, context.engine, out.values.get_data_handle());
    dy_ = memory(y, context.engine, out.gradient.get_data_handle());
    w_ = context.view(w);
    b_ = context.view(b);
    dw_ = context.view(w);
    db_ = context.view(b);
    using Forward = dnnl::inner_product_forward;
    const Forward::primitive_desc forward({prop_kind::forward_training, x, w, b, y}, fused(relu),
                                          context.engine);
    forward_ = {
        context,
        forward,
        Forward(forward),
        {{DNNL_ARG_SRC, x_}, {DNNL_ARG_WEIGHTS, w_}, {DNNL_ARG_BIAS, b_}, {DNNL_ARG_DST, y_}}};
    using Weights = dnnl::inner_product_backward_weights;
    const Weights::primitive_desc weights({x, w, b, y}, own_scratch(), context.engine, forward);
    backward_weights_ = {context,
                         weights,
                         Weights(weights),
                         {{DNNL_ARG_SRC, x_},
                          {DNNL_ARG_DIFF_DST, dy_},
                          {DNNL_ARG_DIFF_WEIGHTS, dw_},
                          {DNNL_ARG_DIFF_BIAS, db_}}};
    dx_ = memory(x, context.engine, in.gradient.get_data_handle());
    using Data = dnnl::inner_product_backward_data;
    const Data::primitive_desc data({x, w, y}, own_scratch(), context.engine, forward);
    backward_data_ = {context,
                      data,
                      Data(data),
                      {{DNNL_ARG_DIFF_DST, dy_}, {DNNL_ARG_WEIGHTS, w_}, {DNNL_ARG_DIFF_SRC, dx_}}};
  }

  void forward(const float* parameters, bool, Rng&) override {
    // The first tensor's memory is the caller's and differs from call to call.
    x_.set_data_handle(in_.values.get_data_handle());
    w_.set_data_handle(const_cast<float*>(parameters + plan_.weight));
    b_.set_data_handle(const_cast<float*>(parameters + plan_.bias));
    forward_.run();
  }

  void backward_input(const float* parameters, bool wanted) override {
    if (relu_) gate_by_relu(out_);
    if (!wanted) return;
    w_.set_data_handle(const_cast<float*>(parameters + plan_.weight));
    backward_data_.run();
  }

  void backward_weight(const float*, float* gradient) override {
    if (std::ranges::binary_search(context_.factored, plan_.weight)) {
      give_factors(gradient);
      return;
    }
    dw_.set_data_handle(gradient + plan_.weight);
    db_.set_data_handle(gradient + plan_.bias);
    backward_weights_.run();
  }

 private:
  void give_factors(float* gradient) const {
    context_.stream.wait();
    const std::size_t rows = context_.batch * plan_.rows;
    const std::size_t outputs = plan_.spec.units;
    const float* dy = floats(out_.gradient);
    float* factors = std::copy_n(dy, rows * outputs, gradient + plan_.weight);
    std::copy_n(floats(in_.values), context_.batch * elements(plan_.in), factors);
    float* db = gradient + plan_.bias;
    std::fill_n(db, outputs, 0.0f);
    for (std::size_t row = 0; row < rows; ++row) add(dy + row * outputs, db, outputs);
  }

  Context& context_;
  LayerPlan plan_;
  bool relu_;
  Tensor& in_;
  Tensor& out_;
  Operation forward_;
  Operation backward_weights_;
  Operation backward_data_;
  memory x_, y_, dy_, w_, b_, dw_, db_, dx_;
};

/// A memory an operation wants in a layout of its own, converted to or from the one that exists.
class Converted {
 public:
  Converted() = default;
  Converted(Context& context, const memory& outside, const memory::desc& wanted)
      : outside_(outside), inside_(outside) {
    if (outside.get_desc() == wanted) return;
    inside_ = context.make(wanted);
    in_ = reorder(context, outside_, inside_);
    out_ = reorder(context, inside_, outside_);
  }

  const memory& inside() const { return inside_; }
  void point_to(const float* data) {
    outside_.set_data_handle(const_cast<float*>(data));
    if (!in_) inside_.set_data_handle(const_cast<float*>(data));
  }
  void enter() {
    if (in_) in_.run();
  }
  void leave() {
    if (out_) out_.run();
  }

 private:
  memory outside_;
  memory inside_;
  Operation in_;
  Operation out_;
};

/// Winograd's form if it is wanted and this processor has it, else the direct one.
template <class Describe>
auto by(bool winograd, Describe describe) {
  if (winograd) {
    try {
      return describe(algorithm::convolution_winograd);
    } catch (const dnnl::error&) {
      // No such implementation here.
    }
  }
  return describe(algorithm::convolution_direct);
}

/// Convolutions in oneDNN's own layouts, by Winograd's algorithm where that is the faster one.
class ConvolutionStep final : public Step {
 public:
  /// With `pooled` the step after this one is a PoolStep, which does the ReLU's backward pass too.
  ConvolutionStep(Context& context, const LayerPlan& plan, bool relu, bool pooled, Tensor& in,
                  Tensor& out)
      : plan_(plan), gates_(relu && !pooled), in_(in), out_(out) {
    const memory::dims source{dim(context.batch), dim(plan.in[0]), dim(plan.in[1]),
                              dim(plan.in[2])};
    const memory::dims target{dim(context.batch), dim(plan.out[0]), dim(plan.out[1]),
                              dim(plan.out[2])};
    const memory::dim side = dim(plan.spec.kernel);
    const memory::dims kernel{target[1], source[1], side, side};
    const memory::dims strides{dim(plan.spec.stride), dim(plan.spec.stride)};
    // Rows and columns the windows do not reach must not be read: right padding may be negative.
    const memory::dims left{dim(plan.spec.padding), dim(plan.spec.padding)};
    const memory::dims right{(target[2] - 1) * strides[0] + side - source[2] - left[0],
                             (target[3] - 1) * strides[1] + side - source[3] - left[1]};
    const auto any = [](const memory::dims& dims) { return memory::desc(dims, f32, tag::any); };
    const memory::desc bias({target[1]}, f32, tag::a);
    const bool winograd = side == 3 && plan.spec.stride == 1 && plan.in[0] >= 16 &&
                          plan.out[0] >= 16 && plan.in[1] >= 8 && plan.in[2] >= 8;
    using Forward = dnnl::convolution_forward;
    using Weights = dnnl::convolution_backward_weights;
    using Data = dnnl::convolution_backward_data;
    const auto forward_desc = by(winograd, [&](algorithm how) {
      return Forward::primitive_desc({prop_kind::forward_training, how, any(source), any(kernel),
                                      bias, any(target), strides, left, right},
                                     fused(relu), context.engine);
    });
    out.values = context.make(forward_desc.dst_desc());
    // Once pooled, the values are never looked at again: the gradient takes their place.
    out.gradient = pooled ? out.values : context.make(forward_desc.dst_desc());
    x_ = Converted(context, in.values, forward_desc.src_desc());
    const memory::desc flat(kernel, f32, tag::oihw);
    w_ = Converted(context, context.view(flat), forward_desc.weights_desc());
    b_ = context.view(bias);
    forward_ = {context,
                forward_desc,
                Forward(forward_desc),
                {{DNNL_ARG_SRC, x_.inside()},
                 {DNNL_ARG_WEIGHTS, w_.inside()},
                 {DNNL_ARG_BIAS, b_},
                 {DNNL_ARG_DST, out.values}}};

    const auto describe_weights = [&](tag layout) {
      return by(winograd, [&](algorithm how) {
        return Weights::primitive_desc({how, memory::desc(source, f32, layout), any(kernel), bias,
                                        memory::desc(target, f32, layout), strides, left, right},
                                       own_scratch(), context.engine, forward_desc);
      });
    };
    auto weights_desc = describe_weights(tag::any);
    // Few channels fill neither blocks of 16 nor of 8; with channels last nothing is padded.
    // Processors without a kernel for that would fall back to oneDNN's reference, which is never
    // faster.
    if (plan.in[0] > 1 && plan.in[0] < 16) {
      auto last = describe_weights(tag::nhwc);
      if (!std::string_view(last.impl_info_str()).starts_with("ref"))
        weights_desc = std::move(last);
    }
    x_for_weights_ = Converted(context, in.values, weights_desc.src_desc());
    dy_for_weights_ = Converted(context, out.gradient, weights_desc.diff_dst_desc());
    dw_ = Converted(context, context.view(flat), weights_desc.diff_weights_desc());
    db_ = context.view(bias);
    backward_weights_ = {context,
                         weights_desc,
                         Weights(weights_desc),
                         {{DNNL_ARG_SRC, x_for_weights_.inside()},
                          {DNNL_ARG_DIFF_DST, dy_for_weights_.inside()},
                          {DNNL_ARG_DIFF_WEIGHTS, dw_.inside()},
                          {DNNL_ARG_DIFF_BIAS, db_}}};

    const auto data_desc = by(winograd, [&](algorithm how) {
      return Data::primitive_desc(
          {how, any(source), any(kernel), any(target), strides, left, right}, own_scratch(),
          context.engine, forward_desc);
    });
    dy_for_data_ = Converted(context, out.gradient, data_desc.diff_dst_desc());
    w_for_data_ = Converted(context, context.view(flat), data_desc.weights_desc());
    dx_ = Converted(context, in.gradient, data_desc.diff_src_desc());
    backward_data_ = {context,
                      data_desc,
                      Data(data_desc),
                      {{DNNL_ARG_DIFF_DST, dy_for_data_.inside()},
                       {DNNL_ARG_WEIGHTS, w_for_data_.inside()},
                       {DNNL_ARG_DIFF_SRC, dx_.inside()}}};
  }

  void forward(const float* parameters, bool, Rng&) override {
    x_.point_to(floats(in_.values));
    x_.enter();
    w_.point_to(parameters + plan_.weight);
    w_.enter();
    b_.set_data_handle(const_cast<float*>(parameters + plan_.bias));
    forward_.run();
  }

  void backward_weight(const float*, float* gradient) override {
    x_for_weights_.point_to(floats(in_.values));
    x_for_weights_.enter();
    dy_for_weights_.enter();
    dw_.point_to(gradient + plan_.weight);
    db_.set_data_handle(gradient + plan_.bias);
    backward_weights_.run();
    dw_.leave();
  }

  void backward_input(const float* parameters, bool wanted) override {
    if (gates_) gate_by_relu(out_);
    if (!wanted) return;
    dy_for_data_.enter();
    w_for_data_.point_to(parameters + plan_.weight);
    w_for_data_.enter();
    backward_data_.run();
    dx_.leave();
  }

 private:
  LayerPlan plan_;
  bool gates_;  ///< The gradient still has to pass the fused ReLU.
  Tensor& in_;
  Tensor& out_;
  Operation forward_;
  Operation backward_weights_;
  Operation backward_data_;
  Converted x_, w_, x_for_weights_, dy_for_weights_, dw_, dy_for_data_, w_for_data_, dx_;
  memory b_, db_;
};

class PoolStep final : public Step {
 public:
  /// With `gates`, `in` is the output of a ReLU whose backward pass is done here: the maximum of a
  /// window passed it exactly if the pooled value did, and there are fewer of those.
  PoolStep(Context& context, const LayerPlan& plan, bool gates, Tensor& in, Tensor& out)
      : gates_(gates), out_(out) {
    const memory::dims target{dim(context.batch), dim(plan.out[0]), dim(plan.out[1]),
                              dim(plan.out[2])};
    const memory::dims kernel{dim(plan.spec.kernel), dim(plan.spec.kernel)};
    const memory::dims strides{dim(plan.spec.stride), dim(plan.spec.stride)};
    const memory::dims left{0, 0};
    const memory::dims right{(target[2] - 1) * strides[0] + kernel[0] - dim(plan.in[1]),
                             (target[3] - 1) * strides[1] + kernel[1] - dim(plan.in[2])};
    const algorithm how = plan.spec.kind == LayerKind::max_pool
                              ? algorithm::pooling_max
                              : algorithm::pooling_avg_exclude_padding;
    const memory::desc source = in.values.get_desc();
    const dnnl::pooling_forward::primitive_desc forward(
        {prop_kind::forward_training, how, source, memory::desc(target, f32, tag::any), strides,
         kernel, left, right},
        own_scratch(), context.engine);
    out.values = context.make(forward.dst_desc());
    out.gradient = context.make(forward.dst_desc());
    workspace_ = context.make(forward.workspace_desc());
    forward_ = {
        context,
        forward,
        dnnl::pooling_forward(forward),
        {{DNNL_ARG_SRC, in.values}, {DNNL_ARG_DST, out.values}, {DNNL_ARG_WORKSPACE, workspace_}}};
    const dnnl::pooling_backward::primitive_desc backward(
        {how, source, forward.dst_desc(), strides, kernel, left, right}, own_scratch(),
        context.engine, forward);
    backward_ = {context,
                 backward,
                 dnnl::pooling_backward(backward),
                 {{DNNL_ARG_DIFF_DST, out.gradient},
                  {DNNL_ARG_DIFF_SRC, in.gradient},
                  {DNNL_ARG_WORKSPACE, workspace_}}};
  }

  void forward(const float*, bool, Rng&) override { forward_.run(); }

  void backward_input(const float*, bool wanted) override {
    if (!wanted) return;
    if (gates_) gate_by_relu(out_);
    backward_.run();
  }

 private:
  bool gates_;
  Tensor& out_;
  Operation forward_;
  Operation backward_;
  memory workspace_;
};

/// A layer of ours on plain memory.
class PlainStep final : public Step {
 public:
  PlainStep(Context& context, const LayerPlan& plan, Tensor& in, Tensor& out)
      : layer_(make_layer<float>(plan)), batch_(context.batch), in_(in), out_(out) {}

  void forward(const float* parameters, bool training, Rng& rng) override {
    layer_->forward(parameters, floats(in_.values), floats(out_.values), batch_, training, rng);
  }

  void backward_input(const float* parameters, bool wanted) override {
    layer_->backward_input(parameters, floats(in_.values), floats(out_.values),
                           floats(out_.gradient), wanted ? floats(in_.gradient) : nullptr, batch_);
  }

  void backward_weight(const float* parameters, float* gradient) override {
    layer_->backward_weight(parameters, floats(in_.values), floats(out_.values),
                            floats(out_.gradient), gradient, batch_);
  }

 private:
  std::unique_ptr<Layer<float>> layer_;
  std::size_t batch_;
  Tensor& in_;
  Tensor& out_;
};

/// Before the layers inside a residual one: their input's gradient gets the sum's on top.
class ForkStep final : public Step {
 public:
  explicit ForkStep(Tensor& in) : in_(in) {}
  void join(const Tensor& out) { out_ = &out; }

  void forward(const float*, bool, Rng&) override {}
  void backward_input(const float*, bool wanted) override {
    if (wanted) add(floats(out_->gradient), floats(in_.gradient), in_.size());
  }

 private:
  Tensor& in_;
  const Tensor* out_ = nullptr;
};

/// After them: the sum of what went in and what came out.
class JoinStep final : public Step {
 public:
  JoinStep(const Tensor& in, Tensor& inside, Tensor& out) : in_(in), inside_(inside), out_(out) {}

  void forward(const float*, bool, Rng&) override {
    std::copy_n(floats(in_.values), in_.size(), floats(out_.values));
    add(floats(inside_.values), floats(out_.values), in_.size());
  }
  void backward_input(const float*, bool) override {
    std::copy_n(floats(out_.gradient), in_.size(), floats(inside_.gradient));
  }

 private:
  const Tensor& in_;
  Tensor& inside_;
  Tensor& out_;
};

std::size_t count(const std::vector<LayerPlan>& layers) {
  std::size_t sum = layers.size();
  for (const LayerPlan& layer : layers) sum += count(layer.layers);
  return sum;
}

class OnednnNetwork final : public Network<float> {
 public:
  OnednnNetwork(const ModelPlan& plan, std::size_t batch) : outputs_(plan.outputs) {
    use_one_thread();
    context_.batch = batch;
    // Tensors are referred to by the steps: none may move.
    tensors_.reserve(2 * count(plan.layers) + 2);
    tensors_.push_back({.shape = plan.in,
                        .values = context_.view(context_.plain(plan.in)),
                        .gradient = context_.make(context_.plain(plan.in))});
    append_layers(plan.layers);
    make_plain();
    begins_.resize(steps_.size(), plan.layout.size());
    if (!trained_) first_trained_ = steps_.size();
  }

  void give_factors(std::span<const std::size_t> weights) override {
    context_.factored.assign(weights.begin(), weights.end());
  }

  std::span<const float> forward(std::span<const float> parameters, std::span<const float> inputs,
                                 bool training, Rng& rng) override {
    const SignalsHeld held;
    use_one_thread();
    tensors_.front().values.set_data_handle(const_cast<float*>(inputs.data()));
    for (const auto& step : steps_) step->forward(parameters.data(), training, rng);
    context_.stream.wait();
    return {floats(tensors_.back().values), context_.batch * outputs_};
  }

  std::span<const float> backward(std::span<const float> parameters,
                                  std::span<const float> d_outputs, std::span<float> gradient,
                                  const ReadyRange& ready, bool want_d_inputs) override {
    const SignalsHeld held;
    use_one_thread();
    std::size_t done = gradient.size();
    std::ranges::copy(d_outputs, floats(tensors_.back().gradient));
    for (std::size_t i = steps_.size(); i-- > first_needed(want_d_inputs);) {
      input_part(i, parameters, want_d_inputs);
      weight_part(i, parameters, gradient, ready, done);
    }
    context_.stream.wait();
    return d_inputs(want_d_inputs);
  }

  std::span<const float> backward_input(std::span<const float> parameters,
                                        std::span<const float> d_outputs,
                                        bool want_d_inputs) override {
    const SignalsHeld held;
    use_one_thread();
    std::ranges::copy(d_outputs, floats(tensors_.back().gradient));
    for (std::size_t i = steps_.size(); i-- > first_needed(want_d_inputs);) {
      input_part(i, parameters, want_d_inputs);
    }
    context_.stream.wait();
    return d_inputs(want_d_inputs);
  }

  void backward_weight(std::span<const float> parameters, std::span<float> gradient,
                       const ReadyRange& ready) override {
    const SignalsHeld held;
    use_one_thread();
    std::size_t done = gradient.size();
    for (std::size_t i = steps_.size(); i-- > first_trained_;) {
      weight_part(i, parameters, gradient, ready, done);
    }
    context_.stream.wait();
  }

 private:
  /// A peer is one training thread. OpenMP keeps the number for each thread that calls, so it is
  /// set where the work is done.
  static void use_one_thread() { omp_set_num_threads(1); }

  std::size_t first_needed(bool want_d_inputs) const { return want_d_inputs ? 0 : first_trained_; }
  std::span<const float> d_inputs(bool wanted) const {
    if (!wanted) return {};
    return {floats(tensors_.front().gradient), context_.batch * elements(tensors_.front().shape)};
  }

  void input_part(std::size_t i, std::span<const float> parameters, bool want_d_inputs) {
    steps_[i]->backward_input(parameters.data(), want_d_inputs || i > first_trained_);
  }

  void weight_part(std::size_t i, std::span<const float> parameters, std::span<float> gradient,
                   const ReadyRange& ready, std::size_t& done) {
    steps_[i]->backward_weight(parameters.data(), gradient.data());
    const std::size_t end = std::exchange(done, begins_[i]);
    if (!ready || done == end) return;
    context_.stream.wait();
    ready(done, end);
  }

  void append_layers(const std::vector<LayerPlan>& layers) {
    for (std::size_t i = 0; i < layers.size(); ++i) {
      const LayerPlan& layer = layers[i];
      const bool carried =
          layer.spec.kind == LayerKind::dense || layer.spec.kind == LayerKind::conv2d;
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
      } else {
        add(layer, relu, pooled);
        // Only the last of a layer's steps has parameters.
        begins_.resize(steps_.size(), layer.begin);
      }
      if (relu) ++i;
    }
  }

  void append_residual(const LayerPlan& layer) {
    make_plain();
    begins_.resize(steps_.size(), layer.begin);
    Tensor& in = tensors_.back();
    auto fork = std::make_unique<ForkStep>(in);
    ForkStep& forked = *fork;
    steps_.push_back(std::move(fork));
    begins_.push_back(layer.begin);
    append_layers(layer.layers);
    make_plain();
    Tensor& inside = tensors_.back();
    Tensor& out = append_plain(layer.out);
    forked.join(out);
    steps_.push_back(std::make_unique<JoinStep>(in, inside, out));
    begins_.resize(steps_.size(), layer.end);
  }

  Tensor& append(const SampleShape& shape) {
    check(tensors_.size() < tensors_.capacity(), "tensors stay where they are");
    return tensors_.emplace_back(Tensor{.shape = shape, .values = {}, .gradient = {}});
  }

  Tensor& append_plain(const SampleShape& shape) {
    Tensor& tensor = append(shape);
    tensor.values = context_.make(context_.plain(shape));
    tensor.gradient = context_.make(context_.plain(shape));
    return tensor;
  }

  void make_plain() {
    if (tensors_.size() == 1 || tensors_.back().is_plain(context_)) return;
    Tensor& in = tensors_.back();
    Tensor& out = append_plain(in.shape);
    steps_.push_back(std::make_unique<Reorder>(context_, in, out));
  }

  void add(const LayerPlan& layer, bool relu, bool pooled) {
    switch (layer.spec.kind) {
      case LayerKind::conv2d: {
        Tensor& in = tensors_.back();
        Tensor& out = append(layer.out);
        steps_.push_back(std::make_unique<ConvolutionStep>(context_, layer, relu, pooled, in, out));
        gate_in_pool_ = pooled;
        break;
      }
      case LayerKind::max_pool:
      case LayerKind::avg_pool: {
        Tensor& in = tensors_.back();
        Tensor& out = append(layer.out);
        steps_.push_back(std::make_unique<PoolStep>(context_, layer,
                                                    std::exchange(gate_in_pool_, false), in, out));
        break;
      }
      case LayerKind::flatten:
        // Only the shape changes: everything that follows takes plain memory of any shape.
        make_plain();
        if (tensors_.size() > 1) {
          Tensor& in = tensors_.back();
          Tensor& out = append(layer.out);
          out.values =
              memory(context_.plain(layer.out), context_.engine, in.values.get_data_handle());
          out.gradient =
              memory(context_.plain(layer.out), context_.engine, in.gradient.get_data_handle());
        } else {
          Tensor& in = tensors_.back();
          Tensor& out = append_plain(layer.out);
          steps_.push_back(std::make_unique<PlainStep>(context_, layer, in, out));
        }
        break;
      case LayerKind::dense: {
        make_plain();
        Tensor& in = tensors_.back();
        Tensor& out = append_plain(layer.out);
        steps_.push_back(std::make_unique<DenseStep>(context_, layer, relu, in, out));
        break;
      }
      default: {
        make_plain();
        Tensor& in = tensors_.back();
        Tensor& out = append_plain(layer.out);
        steps_.push_back(std::make_unique<PlainStep>(context_, layer, in, out));
      }
    }
  }

  Context context_;
  std::size_t outputs_;
  std::vector<Tensor> tensors_;
  std::vector<std::unique_ptr<Step>> steps_;
  std::vector<std::size_t> begins_;  ///< Where in the flat vector each step's parameters begin.
  bool trained_ = false;             ///< A layer so far has parameters.
  std::size_t first_trained_ = 0;    ///< Steps before it have no parameters.
  bool gate_in_pool_ = false;        ///< The pool that is added next does the ReLU's backward pass.
};

}  // namespace

std::unique_ptr<Network<float>> make_onednn_network(const ModelPlan& plan, std::size_t batch) {
  return std::make_unique<OnednnNetwork>(plan, batch);
}

}  // namespace gv
