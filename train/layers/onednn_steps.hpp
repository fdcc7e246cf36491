// The operations ("steps") of a network that oneDNN carries out. No oneDNN type appears here.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "base/rng.hpp"
#include "train/layers/plan.hpp"

namespace gv {

/// How the factors in a dense layer's or a convolution's products are rounded to bfloat16: not at
/// all, by oneDNN (whose products then read bfloat16), or by us.
enum class Rounding { none, by_onednn, by_us };
Rounding rounding_of(const LayerPlan& plan);

/// State shared by all steps of a network.
struct OnednnContext;
std::shared_ptr<OnednnContext> make_onednn_context(std::size_t batch);
std::size_t batch_of(const OnednnContext& context);
/// From now on, the gradient of each of these weights is given as two factors (see
/// Network::give_factors()).
void give_factors(OnednnContext& context, std::span<const std::size_t> weights);
/// Waits until all operations that have begun are done.
void wait_for(OnednnContext& context);

/// Activations between two steps: their values, and their gradient in the same layout.
struct Activations;
using ActivationsPtr = std::shared_ptr<Activations>;
/// Makes activations in plain memory.
ActivationsPtr make_plain_activations(const OnednnContext& context, const SampleShape& shape);
/// Makes activations whose values are in the caller's memory, which is set before each use.
ActivationsPtr make_input_activations(const OnednnContext& context, const SampleShape& shape);
/// Makes activations that share the plain memory of `others`, in another shape.
ActivationsPtr make_reshaped_activations(const OnednnContext& context, const Activations& others,
                                         const SampleShape& shape);
/// Makes activations without memory. The step that produces them chooses the layout and allocates
/// the memory.
ActivationsPtr make_open_activations(const SampleShape& shape);

const SampleShape& shape_of(const Activations& activations);
bool is_plain(const OnednnContext& context, const Activations& activations);
float* values_of(const Activations& activations);
float* gradient_of(const Activations& activations);
void set_values(Activations& activations, const float* values);

/// One layer or two fused layers between an input and an output, which must outlive the step.
class OnednnStep {
 public:
  virtual ~OnednnStep() = default;
  virtual void forward(const float* parameters, bool training, Rng& rng) = 0;
  /// Prepares the weights' gradient from the output's gradient and, if `wanted`, also computes the
  /// input's gradient.
  virtual void backward_input(const float* parameters, bool wanted) = 0;
  virtual void backward_weight(const float* /*parameters*/, float* /*gradient*/) {}
};
using OnednnStepPtr = std::unique_ptr<OnednnStep>;

/// A step that converts activations to another memory layout, and their gradient back.
OnednnStepPtr make_reorder_step(OnednnContext& context, Activations& in, Activations& out);

/// A dense layer between plain memories. With `relu`, the step includes the ReLU that follows.
OnednnStepPtr make_dense_step(OnednnContext& context, const LayerPlan& plan, bool relu,
                              Activations& in, Activations& out);

/// A convolution. With `pooled`, the next step is a pool, which also does the backward pass of the
/// ReLU.
OnednnStepPtr make_convolution_step(OnednnContext& context, const LayerPlan& plan, bool relu,
                                    bool pooled, Activations& in, Activations& out);

/// A pool. With `gates`, `in` is the output of a ReLU whose backward pass this step does. Checking
/// the pooled values is enough and quicker: a window's maximum has passed the ReLU exactly if the
/// pooled value is positive.
OnednnStepPtr make_pool_step(OnednnContext& context, const LayerPlan& plan, bool gates,
                             Activations& in, Activations& out);

}  // namespace gv
