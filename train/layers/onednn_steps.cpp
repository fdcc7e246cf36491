// oneDNN's dense layers, convolutions and pools, bound to the memory that they work on.
#include "train/layers/onednn_steps.hpp"

#include <algorithm>
#include <cstddef>
#include <dnnl.hpp>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/halves.hpp"
#include "train/layers/functions.hpp"

namespace gv {
namespace {

using dnnl::algorithm;
using dnnl::memory;
using dnnl::prop_kind;
using Arguments = std::unordered_map<int, memory>;
using tag = memory::format_tag;

constexpr auto f32 = memory::data_type::f32;

memory::dim dim(std::size_t value) { return static_cast<memory::dim>(value); }

}  // namespace

struct OnednnContext {
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  std::size_t batch = 0;
  /// Offsets of the weights whose factors are wanted (see Network::give_factors()).
  std::vector<std::size_t> factored;

  memory::desc plain(const SampleShape& shape) const {
    return {{dim(batch), dim(shape[0]), dim(shape[1]), dim(shape[2])}, f32, tag::nchw};
  }
  memory make(const memory::desc& desc) const { return {desc, engine}; }
  /// A view without data. It is pointed at memory of the caller before each use.
  memory view(const memory::desc& desc) const { return {desc, engine, nullptr}; }

  /// Scratch space that all operations share, one after another. oneDNN's default scratch space
  /// belongs to the thread that made an operation, but a model is made on one thread and trained on
  /// another.
  std::vector<std::byte> scratch;
};

struct Activations {
  SampleShape shape{};
  memory values;
  memory gradient;
};

namespace {

/// A oneDNN operation with its memories. These are handles, so the memory they point to may change
/// between runs.
class Operation {
 public:
  Operation() = default;

  template <class Description>
  Operation(OnednnContext& context, const Description& description, Arguments arguments)
      : context_(&context),
        primitive_(description.get()),
        scratch_(context.view(description.scratchpad_desc())),
        arguments_(std::move(arguments)) {
    arguments_.emplace(DNNL_ARG_SCRATCHPAD, scratch_);
    // Slightly more memory is needed than described, because the start is aligned to a cache line.
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

  OnednnContext* context_ = nullptr;
  dnnl::primitive primitive_;
  memory scratch_;
  Arguments arguments_;
};

dnnl::primitive_attr own_scratch() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

Operation reorder(OnednnContext& context, const memory& from, const memory& to) {
  const dnnl::reorder::primitive_desc description(context.engine, from.get_desc(), context.engine,
                                                  to.get_desc(), own_scratch());
  return {context, description, {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}}};
}

float* floats(const memory& memory) { return static_cast<float*>(memory.get_data_handle()); }

/// Does the backward pass of the ReLU that was fused into a step. Works in any layout.
void gate_by_relu(const Activations& out) {
  relu_backward(floats(out.values), floats(out.gradient),
                out.values.get_desc().get_size() / sizeof(float));
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

/// Converts activations to another memory layout, and their gradient back.
class Reorder final : public OnednnStep {
 public:
  Reorder(OnednnContext& context, Activations& in, Activations& out)
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

memory::data_type type_of(Rounding how) {
  return how == Rounding::by_onednn ? memory::data_type::bf16 : f32;
}

/// An operand in the layout and type that an operation wants, converted from or to existing memory.
/// With `rounds`, values are rounded to bfloat16 on the way in.
class Converted {
 public:
  Converted() = default;
  Converted(OnednnContext& context, const memory& outside, const memory::desc& wanted,
            bool rounds = false)
      : outside_(outside), inside_(outside), rounds_(rounds) {
    if (outside.get_desc() == wanted && !rounds) return;
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
    if (rounds_) {
      round_to_bf16({floats(inside_), inside_.get_desc().get_size() / sizeof(float)},
                    floats(inside_));
    }
  }
  void leave() {
    if (out_) out_.run();
  }

 private:
  memory outside_;
  memory inside_;
  Operation in_;
  Operation out_;
  bool rounds_ = false;
};

/// Dense layers work on plain memory and use the flat vectors directly: at training batch sizes,
/// packing the weights costs more than it saves. Factors that are rounded to bfloat16 are copied
/// anyway, so the weights are then packed on the way.
class DenseStep final : public OnednnStep {
 public:
  DenseStep(OnednnContext& context, const LayerPlan& plan, bool relu, Activations& in,
            Activations& out)
      : context_(context), plan_(plan), relu_(relu), in_(in), out_(out) {
    const memory::dims x{dim(context.batch * plan.rows), dim(elements(plan.in) / plan.rows)};
    const memory::dims w{dim(plan.spec.units), x[1]};
    const memory::dims y{x[0], w[0]};
    const auto type = type_of(rounding_of(plan));
    const bool rounds = rounding_of(plan) == Rounding::by_us;
    const memory::desc rounded_x(x, type, tag::ab);
    const memory::desc rounded_dy(y, type, tag::ab);
    const memory::desc factor(w, type, type == f32 ? tag::ab : tag::any);
    const memory::desc flat_w(w, f32, tag::ab);
    const memory::desc flat_y(y, f32, tag::ab);
    const memory::desc b({w[0]}, f32, tag::a);
    const dnnl::inner_product_forward::primitive_desc forward(
        {prop_kind::forward_training, rounded_x, factor, b, flat_y}, fused(relu), context.engine);
    x_ = Converted(context, context.view({x, f32, tag::ab}), rounded_x, rounds);
    w_ = Converted(context, context.view(flat_w), forward.weights_desc(), rounds);
    b_ = context.view(b);
    forward_ = {context,
                forward,
                {{DNNL_ARG_SRC, x_.inside()},
                 {DNNL_ARG_WEIGHTS, w_.inside()},
                 {DNNL_ARG_BIAS, b_},
                 {DNNL_ARG_DST, {flat_y, context.engine, out.values.get_data_handle()}}}};
    const dnnl::inner_product_backward_weights::primitive_desc weights(
        {rounded_x, flat_w, b, rounded_dy}, own_scratch(), context.engine, forward);
    dy_ = Converted(context, {flat_y, context.engine, out.gradient.get_data_handle()}, rounded_dy,
                    rounds);
    dw_ = context.view(flat_w);
    db_ = context.view(b);
    backward_weights_ = {context,
                         weights,
                         {{DNNL_ARG_SRC, x_.inside()},
                          {DNNL_ARG_DIFF_DST, dy_.inside()},
                          {DNNL_ARG_DIFF_WEIGHTS, dw_},
                          {DNNL_ARG_DIFF_BIAS, db_}}};
    const dnnl::inner_product_backward_data::primitive_desc data(
        {{x, f32, tag::ab}, factor, rounded_dy}, own_scratch(), context.engine, forward);
    w_for_data_ = Converted(context, context.view(flat_w), data.weights_desc(), rounds);
    const memory dx({x, f32, tag::ab}, context.engine, in.gradient.get_data_handle());
    backward_data_ = {context,
                      data,
                      {{DNNL_ARG_DIFF_DST, dy_.inside()},
                       {DNNL_ARG_WEIGHTS, w_for_data_.inside()},
                       {DNNL_ARG_DIFF_SRC, dx}}};
  }

  void forward(const float* parameters, bool, Rng&) override {
    // If `in_` is the network's input, its memory belongs to the caller and differs between calls.
    x_.point_to(floats(in_.values));
    x_.enter();
    w_.point_to(parameters + plan_.weight);
    w_.enter();
    b_.set_data_handle(const_cast<float*>(parameters + plan_.bias));
    forward_.run();
  }

  void backward_input(const float* parameters, bool wanted) override {
    if (relu_) gate_by_relu(out_);
    dy_.enter();
    if (!wanted) return;
    w_for_data_.point_to(parameters + plan_.weight);
    w_for_data_.enter();
    backward_data_.run();
  }

  void backward_weight(const float*, float* gradient) override {
    const auto& factored = context_.factored;
    if (std::ranges::binary_search(factored, plan_.weight)) return give_factors(gradient);
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
    for (std::size_t row = 0; row < rows; ++row) add_to(dy + row * outputs, db, outputs);
  }

  OnednnContext& context_;
  LayerPlan plan_;
  bool relu_;
  Activations& in_;
  Activations& out_;
  Operation forward_;
  Operation backward_weights_;
  Operation backward_data_;
  Converted x_, w_, dy_, w_for_data_;
  memory b_, dw_, db_;
};

/// Calls `describe` with Winograd's algorithm if `winograd` is set and this processor supports it;
/// otherwise with the direct algorithm.
template <class Describe>
auto by(bool winograd, Describe describe) {
  if (winograd) {
    try {
      return describe(algorithm::convolution_winograd);
    } catch (const dnnl::error&) {
      // This processor does not support Winograd's algorithm.
    }
  }
  return describe(algorithm::convolution_direct);
}

/// The sizes of a convolution in oneDNN's types.
struct ConvolutionSizes {
  ConvolutionSizes(std::size_t batch, const LayerPlan& plan)
      : source{dim(batch), dim(plan.in[0]), dim(plan.in[1]), dim(plan.in[2])},
        target{dim(batch), dim(plan.out[0]), dim(plan.out[1]), dim(plan.out[2])},
        kernel{target[1], source[1], dim(plan.spec.kernel), dim(plan.spec.kernel)},
        strides{dim(plan.spec.stride), dim(plan.spec.stride)},
        left{dim(plan.spec.padding), dim(plan.spec.padding)},
        right{(target[2] - 1) * strides[0] + kernel[2] - source[2] - left[0],
              (target[3] - 1) * strides[1] + kernel[3] - source[3] - left[1]},
        bias({target[1]}, f32, tag::a),
        flat_kernel(kernel, f32, tag::oihw),
        type(type_of(rounding_of(plan))),
        winograd(plan.spec.convolution == ConvolutionMethod::winograd) {}

  /// Describe results and factors of products, by default in layouts that suit oneDNN.
  static memory::desc result(const memory::dims& dims) { return {dims, f32, tag::any}; }
  memory::desc factor(const memory::dims& dims, tag layout = tag::any) const {
    return {dims, type, layout};
  }

  memory::dims source;
  memory::dims target;
  memory::dims kernel;
  memory::dims strides;
  memory::dims left;
  /// Padding at the right and bottom. It is negative if windows do not reach the last rows and
  /// columns, which must then not be read.
  memory::dims right;
  memory::desc bias;
  memory::desc flat_kernel;
  memory::data_type type;
  bool winograd;
};

/// A convolution in oneDNN's own layouts, by Winograd's algorithm or directly (see by()).
class ConvolutionStep final : public OnednnStep {
 public:
  ConvolutionStep(OnednnContext& context, const LayerPlan& plan, bool relu, bool pooled,
                  Activations& in, Activations& out)
      : plan_(plan),
        gates_(relu && !pooled),
        rounds_(rounding_of(plan) == Rounding::by_us),
        in_(in),
        out_(out) {
    const ConvolutionSizes sizes(context.batch, plan);
    const Forward::primitive_desc forward = make_forward(context, sizes, relu, pooled);
    make_backward_weights(context, sizes, forward);
    make_backward_data(context, sizes, forward);
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
  using Forward = dnnl::convolution_forward;
  using Weights = dnnl::convolution_backward_weights;
  using Data = dnnl::convolution_backward_data;

  Forward::primitive_desc make_forward(OnednnContext& context, const ConvolutionSizes& sizes,
                                       bool relu, bool pooled) {
    auto forward_desc = by(sizes.winograd, [&](algorithm how) {
      return Forward::primitive_desc(
          {prop_kind::forward_training, how, sizes.factor(sizes.source), sizes.factor(sizes.kernel),
           sizes.bias, sizes.result(sizes.target), sizes.strides, sizes.left, sizes.right},
          fused(relu), context.engine);
    });
    out_.values = context.make(forward_desc.dst_desc());
    // After pooling, the values are no longer needed, so the gradient reuses their memory.
    out_.gradient = pooled ? out_.values : context.make(forward_desc.dst_desc());
    x_ = Converted(context, in_.values, forward_desc.src_desc(), rounds_);
    w_ = Converted(context, context.view(sizes.flat_kernel), forward_desc.weights_desc(), rounds_);
    b_ = context.view(sizes.bias);
    forward_ = {context,
                forward_desc,
                {{DNNL_ARG_SRC, x_.inside()},
                 {DNNL_ARG_WEIGHTS, w_.inside()},
                 {DNNL_ARG_BIAS, b_},
                 {DNNL_ARG_DST, out_.values}}};
    return forward_desc;
  }

  void make_backward_weights(OnednnContext& context, const ConvolutionSizes& sizes,
                             const Forward::primitive_desc& forward_desc) {
    const auto describe_weights = [&](tag layout) {
      return by(sizes.winograd, [&](algorithm how) {
        return Weights::primitive_desc(
            {how, sizes.factor(sizes.source, layout), sizes.result(sizes.kernel), sizes.bias,
             sizes.factor(sizes.target, layout), sizes.strides, sizes.left, sizes.right},
            own_scratch(), context.engine, forward_desc);
      });
    };
    auto weights_desc = describe_weights(tag::any);
    // A few channels do not fill blocks of 16 or 8. With channels last, nothing is padded. On some
    // processors, oneDNN has only reference code for this layout, which is never faster than
    // blocks.
    if (plan_.in[0] > 1 && plan_.in[0] < 16) {
      auto last = describe_weights(tag::nhwc);
      if (!std::string_view(last.impl_info_str()).starts_with("ref"))
        weights_desc = std::move(last);
    }
    x_for_weights_ = Converted(context, in_.values, weights_desc.src_desc(), rounds_);
    dy_for_weights_ = Converted(context, out_.gradient, weights_desc.diff_dst_desc(), rounds_);
    dw_ = Converted(context, context.view(sizes.flat_kernel), weights_desc.diff_weights_desc());
    db_ = context.view(sizes.bias);
    backward_weights_ = {context,
                         weights_desc,
                         {{DNNL_ARG_SRC, x_for_weights_.inside()},
                          {DNNL_ARG_DIFF_DST, dy_for_weights_.inside()},
                          {DNNL_ARG_DIFF_WEIGHTS, dw_.inside()},
                          {DNNL_ARG_DIFF_BIAS, db_}}};
  }

  void make_backward_data(OnednnContext& context, const ConvolutionSizes& sizes,
                          const Forward::primitive_desc& forward_desc) {
    const auto data_desc = by(sizes.winograd, [&](algorithm how) {
      return Data::primitive_desc(
          {how, sizes.result(sizes.source), sizes.factor(sizes.kernel), sizes.factor(sizes.target),
           sizes.strides, sizes.left, sizes.right},
          own_scratch(), context.engine, forward_desc);
    });
    dy_for_data_ = Converted(context, out_.gradient, data_desc.diff_dst_desc(), rounds_);
    w_for_data_ =
        Converted(context, context.view(sizes.flat_kernel), data_desc.weights_desc(), rounds_);
    dx_ = Converted(context, in_.gradient, data_desc.diff_src_desc());
    backward_data_ = {context,
                      data_desc,
                      {{DNNL_ARG_DIFF_DST, dy_for_data_.inside()},
                       {DNNL_ARG_WEIGHTS, w_for_data_.inside()},
                       {DNNL_ARG_DIFF_SRC, dx_.inside()}}};
  }

  LayerPlan plan_;
  bool gates_;  ///< True if this step does the backward pass of the fused ReLU.
  bool rounds_;
  Activations& in_;
  Activations& out_;
  Operation forward_;
  Operation backward_weights_;
  Operation backward_data_;
  Converted x_, w_, x_for_weights_, dy_for_weights_, dw_, dy_for_data_, w_for_data_, dx_;
  memory b_, db_;
};

class PoolStep final : public OnednnStep {
 public:
  PoolStep(OnednnContext& context, const LayerPlan& plan, bool gates, Activations& in,
           Activations& out)
      : gates_(gates), out_(out) {
    const memory::dims target{dim(context.batch), dim(plan.out[0]), dim(plan.out[1]),
                              dim(plan.out[2])};
    const memory::dims kernel{dim(plan.spec.kernel), dim(plan.spec.kernel)};
    const memory::dims strides{dim(plan.spec.stride), dim(plan.spec.stride)};
    const memory::dims left{dim(plan.spec.padding), dim(plan.spec.padding)};
    const memory::dims right{(target[2] - 1) * strides[0] + kernel[0] - dim(plan.in[1]) - left[0],
                             (target[3] - 1) * strides[1] + kernel[1] - dim(plan.in[2]) - left[1]};
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
        {{DNNL_ARG_SRC, in.values}, {DNNL_ARG_DST, out.values}, {DNNL_ARG_WORKSPACE, workspace_}}};
    const dnnl::pooling_backward::primitive_desc backward(
        {how, source, forward.dst_desc(), strides, kernel, left, right}, own_scratch(),
        context.engine, forward);
    backward_ = {context,
                 backward,
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
  Activations& out_;
  Operation forward_;
  Operation backward_;
  memory workspace_;
};

}  // namespace

std::shared_ptr<OnednnContext> make_onednn_context(std::size_t batch) {
  auto context = std::make_shared<OnednnContext>();
  context->batch = batch;
  return context;
}

std::size_t batch_of(const OnednnContext& context) { return context.batch; }

void give_factors(OnednnContext& context, std::span<const std::size_t> weights) {
  context.factored.assign(weights.begin(), weights.end());
}

void wait_for(OnednnContext& context) { context.stream.wait(); }

ActivationsPtr make_plain_activations(const OnednnContext& context, const SampleShape& shape) {
  return std::make_shared<Activations>(Activations{.shape = shape,
                                                   .values = context.make(context.plain(shape)),
                                                   .gradient = context.make(context.plain(shape))});
}

ActivationsPtr make_input_activations(const OnednnContext& context, const SampleShape& shape) {
  return std::make_shared<Activations>(Activations{.shape = shape,
                                                   .values = context.view(context.plain(shape)),
                                                   .gradient = context.make(context.plain(shape))});
}

ActivationsPtr make_reshaped_activations(const OnednnContext& context, const Activations& others,
                                         const SampleShape& shape) {
  const auto reshaped = [&](const memory& theirs) {
    return memory(context.plain(shape), context.engine, theirs.get_data_handle());
  };
  return std::make_shared<Activations>(Activations{
      .shape = shape, .values = reshaped(others.values), .gradient = reshaped(others.gradient)});
}

ActivationsPtr make_open_activations(const SampleShape& shape) {
  return std::make_shared<Activations>(Activations{.shape = shape, .values = {}, .gradient = {}});
}

const SampleShape& shape_of(const Activations& activations) { return activations.shape; }

bool is_plain(const OnednnContext& context, const Activations& activations) {
  return activations.values.get_desc() == context.plain(activations.shape);
}

float* values_of(const Activations& activations) { return floats(activations.values); }

float* gradient_of(const Activations& activations) { return floats(activations.gradient); }

void set_values(Activations& activations, const float* values) {
  activations.values.set_data_handle(const_cast<float*>(values));
}

OnednnStepPtr make_reorder_step(OnednnContext& context, Activations& in, Activations& out) {
  return std::make_unique<Reorder>(context, in, out);
}

OnednnStepPtr make_dense_step(OnednnContext& context, const LayerPlan& plan, bool relu,
                              Activations& in, Activations& out) {
  return std::make_unique<DenseStep>(context, plan, relu, in, out);
}

OnednnStepPtr make_convolution_step(OnednnContext& context, const LayerPlan& plan, bool relu,
                                    bool pooled, Activations& in, Activations& out) {
  return std::make_unique<ConvolutionStep>(context, plan, relu, pooled, in, out);
}

OnednnStepPtr make_pool_step(OnednnContext& context, const LayerPlan& plan, bool gates,
                             Activations& in, Activations& out) {
  return std::make_unique<PoolStep>(context, plan, gates, in, out);
}

}  // namespace gv
