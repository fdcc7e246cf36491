// The interface of a learner for the model stages that one peer of a pipeline carries.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/range.hpp"
#include "train/learner/group_place.hpp"
#include "train/learner/learner.hpp"

namespace gv {

/// The floats that a stage gets from the previous stage for one micro-batch: activations (batch, C,
/// H, W), followed by the labels or targets that the last stage needs. The gradient that the stage
/// sends back is as large as the activations.
struct BoundarySize {
  std::size_t activations = 0;
  std::size_t truth = 0;

  std::size_t forward() const { return activations + truth; }
};

/// One part of a forward or backward pass that a group of peers makes together.
struct PassPart {
  std::size_t stage = 0;
  std::uint32_t number = 0;  ///< Number of the micro-batch.
  std::size_t part = 0;
};

/// One slice of a stage or, if `slice` is empty, the common part that all carriers of the stage
/// have. In a stage without slices, the common part is the whole stage.
struct PartOfStage {
  std::size_t stage = 0;
  std::optional<std::size_t> slice = std::nullopt;
};

/// Values for the parts of a stage that a peer holds. Carriers exchange them in this order: the
/// common part first, then the peer's slices.
template <class T>
struct HeldValues {
  std::span<T> common;
  std::span<T> slices;

  template <class Values>
  requires(std::convertible_to<Values&, std::span<T>>)
      HeldValues(Values&& values, std::span<T> of_slices = {})
      : common(values), slices(of_slices) {}
  template <class Other>
  requires(std::same_as<const Other, T> && !std::same_as<Other, T>)
      HeldValues(const HeldValues<Other>& values)
      : common(values.common), slices(values.slices) {}
};

/// Owns the live parameters of some stages, and the activations of unfinished micro-batches. Not
/// thread-safe: while a task runs, its thread owns the learner. For each micro-batch and stage,
/// call forward(), and later either backward() or backward_input() and backward_weight().
class StageLearner {
 public:
  virtual ~StageLearner() = default;

  virtual std::size_t stages() const = 0;
  /// The layout of one stage. Tensors are named as in the whole model.
  virtual const Layout& layout(std::size_t stage) const = 0;
  virtual const Layout& whole_layout() const = 0;
  /// The stage's estimated fraction of the model's work.
  virtual double work_share(std::size_t stage) const = 0;
  /// The boundary before a stage. Its sizes are 0 before the first stage and after the last.
  virtual BoundarySize boundary(std::size_t stage) const = 0;

  /// Number of finished pipeline runs, the same for all stages. Learning-rate schedules depend on
  /// it.
  virtual std::uint64_t step() const = 0;
  virtual double learning_rate() const = 0;

  /// Number of slices of a stage; 0 if groups cannot share it.
  virtual std::size_t slices(std::size_t stage) const = 0;
  /// Starts to carry a stage with these slices, or changes the slices of a carried stage. Newly
  /// carried parts start in the state before the first step.
  virtual void take_up(std::size_t stage, const Range& slices) = 0;
  /// Starts to carry a stage with all of its slices.
  void take_up(std::size_t stage) { take_up(stage, {0, slices(stage)}); }
  /// Stops carrying a stage and frees its memory.
  virtual void release(std::size_t stage) = 0;
  virtual bool carries(std::size_t stage) const = 0;
  /// The carried slices of a carried stage.
  virtual Range held(std::size_t stage) const = 0;
  /// The carried parameters of the stage. held_layout() is their layout.
  virtual std::span<const float> parameters(std::size_t stage) const = 0;
  virtual const Layout& held_layout(std::size_t stage) const = 0;
  /// The ranges of the whole stage that parameters() holds, ascending.
  virtual std::vector<Range> held_ranges(std::size_t stage) const = 0;

  /// Number of parameters in a part.
  virtual std::size_t size(const PartOfStage& part) const = 0;
  /// Number of floats in the state of a carried part: its parameters, the optimiser's vectors and
  /// the update count.
  std::size_t state_size(std::size_t stage) const { return state_size(PartOfStage{stage}); }
  virtual std::size_t state_size(const PartOfStage& part) const = 0;
  void copy_state(std::size_t stage, std::span<float> out) const {
    copy_state(PartOfStage{stage}, out);
  }
  virtual void copy_state(const PartOfStage& part, std::span<float> out) const = 0;
  /// Loads a state that another carrier of the part wrote with copy_state(). Resets the optimiser
  /// to the state before the first update if no optimiser could have produced the vectors in this
  /// state.
  void adopt_state(std::size_t stage, std::span<const float> state) {
    adopt_state(PartOfStage{stage}, state);
  }
  virtual void adopt_state(const PartOfStage& part, std::span<const float> state) = 0;
  /// The optimiser's state for a stage's checkpoint. restore() is the inverse: it loads parameters
  /// and such a state for the carried parts. If the stage is not carried, restore() first takes up
  /// all of it. restore() returns why the values do not fit, or an empty string.
  virtual OptimizerState optimizer_state(std::size_t stage) const = 0;
  virtual std::string restore(std::size_t stage, std::span<const float> parameters,
                              const OptimizerState& state) = 0;
  /// Sets step() for all carried stages.
  virtual void move_to(std::uint64_t step) = 0;

  /// Takes micro-batch `number` of this run through a stage, with the parameters after `version`
  /// updates of the run. The first stage ignores `in` and draws this peer's batch number `draw` of
  /// the run. `out` has boundary(stage + 1).forward() floats; it is empty for the last stage, which
  /// computes the loss and returns the score instead.
  virtual Score forward(std::size_t stage, std::uint32_t number, std::size_t draw,
                        std::uint32_t version, std::span<const float> in, std::span<float> out) = 0;

  /// Adds the gradient of the micro-batch's mean loss, for the carried parameters of the stage, to
  /// `gradient`. Writes the gradient for the stage's inputs to `d_in` (empty for the first stage).
  /// `d_out`, the gradient for the stage's outputs, is empty for the last stage.
  virtual void backward(std::size_t stage, std::uint32_t number, std::span<const float> d_out,
                        std::span<float> d_in, const HeldValues<float>& gradient) = 0;
  virtual void backward_input(std::size_t stage, std::uint32_t number, std::span<const float> d_out,
                              std::span<float> d_in) = 0;
  virtual void backward_weight(std::size_t stage, std::uint32_t number,
                               const HeldValues<float>& gradient) = 0;

  /// The sums that a group makes while one micro-batch passes through the stage: one after each
  /// part of the pass except the last. If there are no forward sums, a group cannot share the
  /// stage.
  virtual std::vector<GroupSum> group_sums(std::size_t stage, bool backward) const = 0;
  /// These functions compute one part of a pass in a group. forward_part() replaces forward();
  /// backward_part() replaces backward_input(), or the first half of backward(). `in` is the
  /// group's last sum, and `out` is our summand for the next one. In the first part, `in` is the
  /// input of the whole pass; in the last part, `out` is its output. If the first member deals out
  /// the sum (GroupSum::dealt), only our own part of `in` is set. The group's first member draws
  /// the batches of the first stage. backward_weight() adds the gradient of our slices, and our
  /// share of the common part's gradient. All passes of a group use the newest version of the
  /// parameters.
  virtual Score forward_part(const PassPart& pass, const GroupPlace& place, std::size_t draw,
                             std::span<const float> in, std::span<float> out) = 0;
  virtual void backward_part(const PassPart& pass, std::span<const float> in,
                             std::span<float> out) = 0;

  /// Takes batch `number` of the test samples forward through a stage, with the newest parameters,
  /// and keeps no activations. After the last sample, batches start over at the first. The first
  /// stage ignores `in`. `out` is as in forward(), but the last stage scores its outputs for
  /// test_merit().
  virtual void test(std::size_t stage, std::size_t number, std::span<const float> in,
                    std::span<float> out) = 0;
  /// Replaces test() in a group: computes one part of a test pass, with arguments as in
  /// forward_part(). Between parts, a group makes only the sums_in_tests().
  virtual void test_part(const PassPart& pass, const GroupPlace& place, std::size_t number,
                         std::span<const float> in, std::span<float> out) = 0;
  /// The accuracy, or R2 for data with targets, on the batches that the last stage has scored since
  /// the last call or the start of the run. 0 if there are none.
  virtual double test_merit() = 0;

  /// Makes one optimiser step of a stage with `sum`, the summed gradients of `micro_batches`
  /// micro-batches. Keeps versions that unfinished micro-batches still use.
  virtual void update(std::size_t stage, const HeldValues<const float>& sum,
                      std::size_t micro_batches) = 0;
  /// Adds `scale` * `force` to the newest version of the parameters.
  virtual void add(std::size_t stage, std::span<const float> force, float scale) = 0;
  /// Replaces the newest version of the parameters with `values`.
  virtual void set(std::size_t stage, std::span<const float> values) = 0;

  /// Ends the run, in which we drew `drawn` batches. The next run draws different ones.
  virtual void end_run(std::size_t drawn) = 0;
  /// Abandons the run: drops unfinished micro-batches and restores the state from the run's start.
  virtual void abandon_run() = 0;

  /// Number of times that parameters were clamped because update(), add() or set() would have made
  /// them larger than a bound.
  virtual std::uint64_t held() const { return 0; }
};

}  // namespace gv
