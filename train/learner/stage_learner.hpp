// The interface of the model stages that one peer of a pipeline carries.
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

/// Number of floats that a stage gets from the previous one for one micro-batch: activations
/// (batch, C, H, W), followed by the labels or targets that the last stage needs. The gradient that
/// goes back is as long as the activations.
struct BoundarySize {
  std::size_t activations = 0;
  std::size_t truth = 0;

  std::size_t forward() const { return activations + truth; }
};

/// A part of a pass that a group makes together.
struct PassPart {
  std::size_t stage = 0;
  std::uint32_t number = 0;  ///< Number of the micro-batch.
  std::size_t part = 0;
};

/// A slice of a stage, or else the part that all its carriers have: without slices, all of the
/// stage.
struct PartOfStage {
  std::size_t stage = 0;
  std::optional<std::size_t> slice = std::nullopt;
};

/// Numbers for the parts of a stage that a peer holds, in the order in which carriers exchange
/// them: the part that all carriers have, then the peer's slices.
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

/// Owns the live parameters of some stages, and the activations of micro-batches under way. Not
/// thread-safe: while a task runs, the thread that runs it owns the learner. A micro-batch goes
/// through a stage by forward(), and later by backward() or by backward_input() and
/// backward_weight().
class StageLearner {
 public:
  virtual ~StageLearner() = default;

  virtual std::size_t stages() const = 0;
  /// The layout of one stage. Tensors are named as in the whole model.
  virtual const Layout& layout(std::size_t stage) const = 0;
  virtual const Layout& whole_layout() const = 0;
  /// The stage's estimated fraction of the model's work.
  virtual double work_share(std::size_t stage) const = 0;
  /// The boundary before a stage. Zero before the first stage and after the last.
  virtual BoundarySize boundary(std::size_t stage) const = 0;

  /// Number of runs made, which learning-rate schedules count. The same for all stages.
  virtual std::uint64_t step() const = 0;
  virtual double learning_rate() const = 0;

  /// Number of slices of a stage; 0 if groups cannot share it.
  virtual std::size_t slices(std::size_t stage) const = 0;
  /// Starts to carry a stage with these slices, or changes the slices. Parts that were not carried
  /// yet are in the state before the first step.
  virtual void take_up(std::size_t stage, const Range& slices) = 0;
  /// Carries all of a stage.
  void take_up(std::size_t stage) { take_up(stage, {0, slices(stage)}); }
  /// Stops carrying a stage and frees its memory.
  virtual void release(std::size_t stage) = 0;
  virtual bool carries(std::size_t stage) const = 0;
  /// The carried slices of a carried stage.
  virtual Range held(std::size_t stage) const = 0;
  /// The carried parameters of the stage, and their layout.
  virtual std::span<const float> parameters(std::size_t stage) const = 0;
  virtual const Layout& held_layout(std::size_t stage) const = 0;
  /// The ranges of these parameters in the whole stage, ascending.
  virtual std::vector<Range> held_ranges(std::size_t stage) const = 0;

  /// Number of parameters of a part.
  virtual std::size_t size(const PartOfStage& part) const = 0;
  /// The state of a part that is carried: parameters, the optimiser's vectors and its update count.
  std::size_t state_size(std::size_t stage) const { return state_size(PartOfStage{stage}); }
  virtual std::size_t state_size(const PartOfStage& part) const = 0;
  void copy_state(std::size_t stage, std::span<float> out) const {
    copy_state(PartOfStage{stage}, out);
  }
  virtual void copy_state(const PartOfStage& part, std::span<float> out) const = 0;
  /// Takes over the copy_state() of another carrier of that part. An optimiser's state that no
  /// optimiser can have made is replaced by the one before the first update.
  void adopt_state(std::size_t stage, std::span<const float> state) {
    adopt_state(PartOfStage{stage}, state);
  }
  virtual void adopt_state(const PartOfStage& part, std::span<const float> state) = 0;
  /// The part of a stage's checkpoint besides its parameters. restore() is the inverse for the
  /// carried parts of the stage, or all of it; it returns why the state does not fit, or an empty
  /// string.
  virtual OptimizerState optimizer_state(std::size_t stage) const = 0;
  virtual std::string restore(std::size_t stage, std::span<const float> parameters,
                              const OptimizerState& state) = 0;
  /// Sets step() for all carried stages.
  virtual void move_to(std::uint64_t step) = 0;

  /// Takes micro-batch `number` of this run through a stage, with the parameters after `version`
  /// updates of the run. The first stage draws the peer's own batch number `draw` of the run and
  /// ignores `in`. `out` has boundary(stage + 1).forward() floats; it is empty for the last stage,
  /// which computes the loss instead.
  virtual Score forward(std::size_t stage, std::uint32_t number, std::size_t draw,
                        std::uint32_t version, std::span<const float> in, std::span<float> out) = 0;

  /// Adds the gradient of the micro-batch's mean loss to `gradient`, for the carried parameters of
  /// the stage, and writes the gradient of its inputs to `d_in` (empty for the first stage).
  /// `d_out` is empty for the last stage.
  virtual void backward(std::size_t stage, std::uint32_t number, std::span<const float> d_out,
                        std::span<float> d_in, const HeldValues<float>& gradient) = 0;
  virtual void backward_input(std::size_t stage, std::uint32_t number, std::span<const float> d_out,
                              std::span<float> d_in) = 0;
  virtual void backward_weight(std::size_t stage, std::uint32_t number,
                               const HeldValues<float>& gradient) = 0;

  /// What the members of a group sum for a micro-batch after each part but the last of a pass
  /// through the stage. Without forward sums, the stage has nothing that a group could share.
  virtual std::vector<GroupSum> group_sums(std::size_t stage, bool backward) const = 0;
  /// The parts of a pass in a group, which replace forward(), and backward_input() or the first
  /// half of backward(). For parts other than the first, `in` is the group's sum; for parts other
  /// than the last, `out` is our summand. Otherwise they are those of the whole pass. Of a sum that
  /// the first member deals out (GroupSum::dealt), only our own part has been set. The group's
  /// first member draws the batches of the first stage. backward_weight() adds the gradient of our
  /// slices, and of the common part what no other member adds. There is one version of the
  /// parameters in a run.
  virtual Score forward_part(const PassPart& pass, const GroupPlace& place, std::size_t draw,
                             std::span<const float> in, std::span<float> out) = 0;
  virtual void backward_part(const PassPart& pass, std::span<const float> in,
                             std::span<float> out) = 0;

  /// Takes batch `number` of the test samples forward through a stage, with the newest parameters,
  /// and keeps no activations. After the last sample the samples begin again. The first stage
  /// ignores `in`. `out` is as in forward(); the last stage scores the outputs for test_merit()
  /// instead.
  virtual void test(std::size_t stage, std::size_t number, std::span<const float> in,
                    std::span<float> out) = 0;
  /// The parts of a test pass in a group, which replace test(), as in forward_part(). Between them
  /// are only sums_in_tests().
  virtual void test_part(const PassPart& pass, const GroupPlace& place, std::size_t number,
                         std::span<const float> in, std::span<float> out) = 0;
  /// The accuracy, or R2 for data with targets, on the batches that the last stage has scored since
  /// the last call, or since the run began. 0 if there are none.
  virtual double test_merit() = 0;

  /// Makes one optimiser step of a stage with `sum`, the summed gradients of `micro_batches`
  /// micro-batches. Versions that micro-batches under way still use are kept.
  virtual void update(std::size_t stage, const HeldValues<const float>& sum,
                      std::size_t micro_batches) = 0;
  /// x += scale * force, for the newest version.
  virtual void add(std::size_t stage, std::span<const float> force, float scale) = 0;
  /// x = values, for the newest version.
  virtual void set(std::size_t stage, std::span<const float> values) = 0;

  /// Ends the run, in which we drew `drawn` batches. The next run draws others.
  virtual void end_run(std::size_t drawn) = 0;
  /// Abandons the run: forgets micro-batches under way and restores the state in which the run
  /// began.
  virtual void abandon_run() = 0;

  /// How often update(), add() or set() would have made parameters absurdly large, so that the
  /// parameters were held at a bound.
  virtual std::uint64_t held() const { return 0; }
};

}  // namespace gv
