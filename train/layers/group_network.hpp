// The part of a stage's layers that one member of a group computes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/rng.hpp"
#include "train/layers/cut_part.hpp"
#include "train/layers/sliced_stage.hpp"

namespace gv {

/// One step through a stage. A residual layer with units inside becomes a fork, its layers, and a
/// join, so that its units are steps, too.
struct GroupStep {
  enum class Kind {
    whole,  ///< A layer that every member computes.
    unit,   ///< Layers that members share (layers_to_cut).
    fork,   ///< Passes its input on to the join as well.
    join    ///< Adds the input of the fork.
  };
  Kind kind = Kind::whole;
  std::vector<LayerPlan> layers;  ///< For whole and unit: the layers.
  std::size_t in = 0;             ///< Floats of one sample.
  std::size_t out = 0;
  std::size_t other = 0;  ///< fork, join: the number of the step at the other end.
};
std::vector<GroupStep> group_steps(const ModelPlan& plan);

/// For each part of a pass except the last: the number of floats per sample that the members sum
/// after it. The numbers do not depend on the group. `wants_d_inputs`: the gradient of the stage's
/// inputs is needed.
std::vector<std::size_t> group_sums(const ModelPlan& plan, bool backward, bool wants_d_inputs);

/// Forward and backward pass through a stage for batches of one size, by a member of a group that
/// holds some of its slices. A pass has one part more than there are sums: a part ends with a
/// summand wherever members have to sum, and the next part continues with the sum, which the caller
/// provides. Members then hold equal values at every step. T is float or double.
template <class T>
class GroupNetwork {
 public:
  /// The first member of the group computes the gradients of the parameters that all members have.
  GroupNetwork(const SlicedStage& stage, const HeldParameters& held, std::size_t batch,
               bool is_first, bool wants_d_inputs);

  /// The next part of the forward pass. The first part takes the inputs, and the others take the
  /// sum. `parameters` are the held ones. They and the inputs must stay valid until backward is
  /// over. Returns the summand or, at the end, the outputs; valid until the next call.
  std::span<const T> begin(std::span<const T> parameters, std::span<const T> inputs, const Rng& rng,
                           bool training = true);
  std::span<const T> go_on(std::span<const T> sum);

  /// The same for the gradient of the inputs, computed from that of the outputs. At the end returns
  /// an empty span if the gradient of the inputs is not wanted.
  std::span<const T> begin_back(std::span<const T> d_outputs);
  std::span<const T> go_on_back(std::span<const T> sum);

  /// Writes the gradient of the held parameters. Members other than the first leave out the
  /// parameters that all members have.
  void write_gradient(std::span<T> gradient);

 private:
  std::span<const T> forward_from(std::size_t step);
  std::span<const T> backward_from(std::size_t end);
  const T* input(std::size_t i) const { return i == 0 ? inputs_.data() : outputs_[i - 1].data(); }
  void add_biases(std::size_t i);
  void back_through_join_or_fork(std::size_t i);

  std::size_t batch_;
  bool is_first_;  ///< True for the first member of the group.
  bool wants_d_inputs_;
  std::vector<GroupStep> steps_;
  std::size_t first_trained_ = 0;  ///< The steps before this one have no parameters.
  std::vector<std::unique_ptr<Layer<T>>> layers_;  ///< Layers by step; null if the step is not a
                                                   ///< whole layer.
  struct Unit {
    std::unique_ptr<Layer<T>> layer;  ///< Null if we hold no grains of the unit.
    std::size_t begin = 0;            ///< Where its parameters begin among the held ones.
    Range biases;                     ///< Its biases among the held parameters.
  };
  std::vector<Unit> units_;  ///< Units by step.
  std::vector<std::vector<T>> outputs_;
  /// Gradients of each step's inputs; the last is that of the outputs.
  std::vector<std::vector<T>> gradients_;
  std::vector<T> summand_;
  std::size_t at_ = 0;  ///< The step whose sum is awaited.
  std::span<const T> parameters_;
  std::span<const T> inputs_;
  bool training_ = true;
  Rng rng_;
};

}  // namespace gv
