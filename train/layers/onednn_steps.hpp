// What oneDNN does in a network: steps between activations, with its interface hidden.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/rng.hpp"
#include "train/layers/plan.hpp"

namespace gv {

/// What all steps of a network share.
struct OnednnContext;
std::shared_ptr<OnednnContext> make_onednn_context(std::size_t batch);
std::size_t batch_of(const OnednnContext& context);
/// See Network::give_factors().
void give_factors(OnednnContext& context, std::span<const std::size_t> weights);
/// Until all that was begun is done.
void wait_for(OnednnContext& context);

/// Activations between two steps: values, and their gradient in the same layout.
struct Activations;
using ActivationsPtr = std::shared_ptr<Activations>;
/// In plain memory.
ActivationsPtr make_plain_activations(const OnednnContext& context, const SampleShape& shape);
/// The same with the values in the caller's memory, which is set before each use.
ActivationsPtr make_input_activations(const OnednnContext& context, const SampleShape& shape);
/// In the plain memory of others, in another shape.
ActivationsPtr make_reshaped_activations(const OnednnContext& context, const Activations& others,
                                         const SampleShape& shape);
/// Without memory: the step that they come out of chooses its layout and makes it.
ActivationsPtr make_open_activations(const SampleShape& shape);

const SampleShape& shape_of(const Activations& activations);
bool is_plain(const OnednnContext& context, const Activations& activations);
float* values_of(const Activations& activations);
float* gradient_of(const Activations& activations);
void set_values(Activations& activations, const float* values);

/// One or two fused layers between an input and an output, which outlive it.
class OnednnStep {
 public:
  virtual ~OnednnStep() = default;
  virtual void forward(const float* parameters, bool training, Rng& rng) = 0;
  /// Makes the output's gradient what the weights need and, if `wanted`, the input's from it.
  virtual void backward_input(const float* parameters, bool wanted) = 0;
  virtual void backward_weight(const float* /*parameters*/, float* /*gradient*/) {}
};
using OnednnStepPtr = std::unique_ptr<OnednnStep>;

/// Changes the memory layout, and back for the gradient.
OnednnStepPtr make_reorder_step(OnednnContext& context, Activations& in, Activations& out);

/// Between plain memory; with `relu` that layer is done too.
OnednnStepPtr make_dense_step(OnednnContext& context, const LayerPlan& plan, bool relu,
                              Activations& in, Activations& out);

/// With `pooled` the step after this one is a pool, which does the ReLU's backward pass too.
OnednnStepPtr make_convolution_step(OnednnContext& context, const LayerPlan& plan, bool relu,
                                    bool pooled, Activations& in, Activations& out);

/// With `gates`, `in` is the output of a ReLU whose backward pass is done here: the maximum of a
/// window passed it exactly if the pooled value did, and there are fewer of those.
OnednnStepPtr make_pool_step(OnednnContext& context, const LayerPlan& plan, bool gates,
                             Activations& in, Activations& out);

}  // namespace gv
