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

/// Forward and backward pass through a stage for batches of one size, as computed by a member of a
/// group. The member holds some slices of the stage. Sums divide a pass into parts, so a pass has
/// one part more than it has sums. Each part except the last ends with our summand. The caller
/// provides the sum, from which the next part continues. Between two steps, either all members hold
/// equal values, or each holds its strip. T is float or double.
template <class T>
class GroupNetwork {
 public:
  /// `place` is the group place of the member that has the parameters `held`.
  GroupNetwork(const SlicedStage& stage, const HeldParameters& held, std::size_t batch,
               const GroupPlace& place, bool wants_d_inputs);

  /// Computes the next part of the forward pass. The first part takes the inputs, and the others
  /// take the sum. Without `training` there are only the sums of sums_in_tests(). `parameters` are
  /// the held ones. The parameters, inputs and labels must stay valid until the backward pass is
  /// over. Returns our summand or, at the end, the outputs; valid until the next call.
  std::span<const T> begin(std::span<const T> parameters, std::span<const T> inputs,
                           std::span<const std::int32_t> labels, const Rng& rng,
                           bool training = true);
  std::span<const T> go_on(std::span<const T> sum);
  /// The loss after the forward pass, if the last layer is shared by classes. In that case labels
  /// are needed, and there are no outputs.
  const std::optional<LossSum>& loss() const { return loss_; }

  /// Computes the next part of the backward pass, like begin() and go_on(). The pass turns the
  /// gradient of the outputs into the gradient of the inputs. At the end, returns an empty span if
  /// the gradient of the inputs is not wanted. With loss(), `d_outputs` is empty.
  std::span<const T> begin_back(std::span<const T> d_outputs);
  std::span<const T> go_on_back(std::span<const T> sum);

  /// Writes the gradient of the held parameters. For parameters that all members have, writes a
  /// summand if this member adds_to_common(), and otherwise nothing.
  void write_gradient(std::span<T> gradient);
  /// True if this member adds to the gradient of parameters that all members have. The first member
  /// does so for layers that all members compute, and every member does so for layers shared by
  /// rows.
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
  std::size_t first_trained_ = 0;                  ///< Index of the first step that has parameters.
  std::vector<std::unique_ptr<Layer<T>>> layers_;  ///< Layers by step, for steps of the kinds
                                                   ///< `whole` and `rows`.
  std::vector<std::optional<StripEdges>> edges_;   ///< Edges by step, for steps of kind `edges`.
  std::vector<std::optional<StripNorm<T>>> norms_;  ///< Norms by step, for steps of kind `norm`.
  std::optional<ClassesPart<T>> classes_;           ///< Set if the last step is shared by classes.
  /// Where the weights and the biases of our classes begin among the held parameters.
  std::size_t class_weights_ = 0;
  std::size_t class_biases_ = 0;
  std::optional<LossSum> loss_;
  std::vector<Range> rows_;  ///< The rows of each step's outputs that we have.
  struct Unit {
    std::unique_ptr<Layer<T>> layer;  ///< Null if we hold no grains of the unit.
    std::size_t begin = 0;            ///< Where the unit's parameters begin among the held ones.
    Range biases;                     ///< The unit's biases among the held parameters.
  };
  std::vector<Unit> units_;  ///< Units by step.
  std::vector<std::vector<T>> outputs_;
  /// The gradient of each step's inputs. The last element is the gradient of the outputs.
  std::vector<std::vector<T>> gradients_;
  std::vector<T> summand_;
  std::size_t at_ = 0;  ///< Index of the step whose sum is awaited.
  std::span<const T> parameters_;
  std::span<const T> inputs_;
  std::span<const std::int32_t> labels_;
  bool training_ = true;
  Rng rng_;
};

}  // namespace gv
