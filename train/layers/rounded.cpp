// A dense layer or a convolution whose factors are rounded to bfloat16: every product is exact in
// float, so only the order of sums is left to the processor.
#include <algorithm>
#include <span>
#include <vector>

#include "base/halves.hpp"
#include "train/layers/layer.hpp"

namespace gv {
namespace {

/// Returns the plan for an inner layer in float, whose parameter vector holds only its weights and
/// then its biases.
LayerPlan alone(LayerPlan plan, std::size_t weights) {
  plan.precision = Precision::float32;
  plan.begin = 0;
  plan.weight = 0;
  plan.bias = weights;
  plan.end = weights + plan.spec.units;
  return plan;
}

std::size_t count_weights(const LayerPlan& plan) {
  if (plan.spec.kind == LayerKind::dense) {
    return plan.spec.units * elements(plan.in) / plan.rows;
  }
  return plan.spec.units * plan.in[0] * plan.spec.kernel * plan.spec.kernel;
}

class Rounded final : public Layer<float> {
 public:
  explicit Rounded(const LayerPlan& plan)
      : plan_(plan),
        own_(alone(plan, count_weights(plan))),
        layer_(make_layer<float>(own_)),
        parameters_(own_.end),
        gradient_(own_.end) {}

  void forward(const float* parameters, const float* in, float* out, std::size_t batch,
               bool training, Rng& rng) override {
    round_to_bf16({parameters + plan_.weight, own_.bias}, parameters_.data());
    std::copy_n(parameters + plan_.bias, plan_.spec.units, parameters_.begin() + offset());
    in_.resize(batch * elements(plan_.in));
    round_to_bf16({in, in_.size()}, in_.data());
    layer_->forward(parameters_.data(), in_.data(), out, batch, training, rng);
  }

  void backward_input(const float*, const float*, const float* out, const float* d_out, float* d_in,
                      std::size_t batch) override {
    d_out_.resize(batch * elements(plan_.out));
    round_to_bf16({d_out, d_out_.size()}, d_out_.data());
    layer_->backward_input(parameters_.data(), in_.data(), out, d_out_.data(), d_in, batch);
  }

  void backward_weight(const float*, const float*, const float* out, const float*,
                       float* d_parameters, std::size_t batch) override {
    layer_->backward_weight(parameters_.data(), in_.data(), out, d_out_.data(), gradient_.data(),
                            batch);
    std::copy_n(gradient_.begin(), own_.bias, d_parameters + plan_.weight);
    std::copy_n(gradient_.begin() + offset(), plan_.spec.units, d_parameters + plan_.bias);
  }

  void weight_factors(const float*, const float*, float* d_parameters, std::size_t batch) override {
    layer_->weight_factors(in_.data(), d_out_.data(), gradient_.data(), batch);
    const std::size_t factors = in_.size() + d_out_.size();
    std::copy_n(gradient_.begin(), factors, d_parameters + plan_.weight);
    std::copy_n(gradient_.begin() + offset(), plan_.spec.units, d_parameters + plan_.bias);
  }

 private:
  std::ptrdiff_t offset() const { return static_cast<std::ptrdiff_t>(own_.bias); }

  LayerPlan plan_;
  LayerPlan own_;
  std::unique_ptr<Layer<float>> layer_;
  std::vector<float> parameters_;
  std::vector<float> gradient_;
  std::vector<float> in_;
  std::vector<float> d_out_;
};

}  // namespace

std::unique_ptr<Layer<float>> make_rounded_layer(const LayerPlan& plan) {
  return std::make_unique<Rounded>(plan);
}

}  // namespace gv
