// The part of a stage's layers that one member of a group computes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/rng.hpp"
#include "train/layers/cut_classes.hpp"
#include "train/layers/cut_norm.hpp"
#include "train/layers/cut_part.hpp"
#include "train/layers/group_steps.hpp"
#include "train/layers/sliced_stage.hpp"
#include "train/layers/strips.hpp"

namespace gv {

/// Forward and backward pass through a stage for batches of one size, by a member of a group that
/// holds some of its slices. A pass has one part more than there are sums: a part ends with a
/// summand wherever members have to sum, and the next part continues with the sum, which the caller
/// provides. Between two steps members hold equal values, or each its strip. T is float or double.
template <class T>
class GroupNetwork {
 public:
  /// `place` is that of the member with these held parameters.
  GroupNetwork(const SlicedStage& stage, const HeldParameters& held, std::size_t batch,
               const GroupPlace& place, bool wants_d_inputs);

  /// The next part of the forward pass. The first part takes the inputs, and the others take the
  /// sum. Without `training` there are only sums_in_tests(). `parameters` are the held ones. They,
  /// the inputs and the labels must stay valid until backward is over. Returns the summand or, at
  /// the end, the outputs; valid until the next call.
  std::span<const T> begin(std::span<const T> parameters, std::span<const T> inputs,
                           std::span<const std::int32_t> labels, const Rng& rng,
                           bool training = true);
  std::span<const T> go_on(std::span<const T> sum);
  /// After the forward pass: the loss, if the last layer goes by classes. Then labels were needed,
  /// and there are no outputs.
  const std::optional<LossSum>& loss() const { return loss_; }

  /// The same for the gradient of the inputs, computed from that of the outputs. At the end returns
  /// an empty span if the gradient of the inputs is not wanted. With loss(), `d_outputs` is empty.
  std::span<const T> begin_back(std::span<const T> d_outputs);
  std::span<const T> go_on_back(std::span<const T> sum);

  /// Writes the gradient of the held parameters. That of the parameters that all members have is a
  /// summand if this member adds_to_common(), and otherwise not written.
  void write_gradient(std::span<T> gradient);
  /// The first member computes the gradients of layers that all members compute. Of layers that
  /// they share by rows, each computes a summand.
  bool adds_to_common() const { return place_.is_first() || has_rows_; }

 private:
  void make_step(const SlicedStage& stage, const HeldParameters& held, GroupStep& step);
  void make_exchange(const SlicedStage& stage, const HeldParameters& held, const GroupStep& step,
                     const Range& rows);
  std::size_t floats(const SampleShape& shape, const Range& rows) const;
  std::span<const T> forward_from(std::size_t step);
  std::span<const T> backward_from(std::size_t end);
  bool is_summed_now(std::size_t i) const;
  std::span<const T> summand_of(std::size_t i);
  std::span<const T> summand_back_of(std::size_t i, bool is_wanted);
  void compute_here(std::size_t i);
  void go_back_here(std::size_t i, bool is_wanted);
  const T* input(std::size_t i) const { return i == 0 ? inputs_.data() : outputs_[i - 1].data(); }
  void add_biases(std::size_t i);

  std::size_t batch_;
  GroupPlace place_;
  bool wants_d_inputs_;
  bool has_rows_ = false;  ///< True if a layer is shared by rows.
  std::vector<GroupStep> steps_;
  std::size_t first_trained_ = 0;  ///< The steps before this one have no parameters.
  std::vector<std::unique_ptr<Layer<T>>> layers_;   ///< For whole and rows: layers by step.
  std::vector<std::optional<StripEdges>> edges_;    ///< For edges: by step.
  std::vector<std::optional<StripNorm<T>>> norms_;  ///< For norms: by step.
  std::optional<ClassesPart<T>> classes_;           ///< If the last step goes by classes.
  /// The places of its weights and biases among the held parameters.
  std::size_t class_weights_ = 0;
  std::size_t class_biases_ = 0;
  std::optional<LossSum> loss_;
  std::vector<Range> rows_;  ///< The rows of each step's outputs that we have.
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
  std::span<const std::int32_t> labels_;
  bool training_ = true;
  Rng rng_;
};

}  // namespace gv
