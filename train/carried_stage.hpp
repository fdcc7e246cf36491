// A stage of a pipeline, or slices of one, as held by its carrier.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "train/layers/group_network.hpp"
#include "train/layers/network.hpp"
#include "train/layers/sliced_stage.hpp"
#include "train/learner/group_place.hpp"
#include "train/learner/stage_learner.hpp"
#include "train/optimizer.hpp"
#include "train/parameter_bound.hpp"

namespace gv {

/// A micro-batch between its forward pass in a stage and the end of its backward pass.
struct Flight {
  /// Null while the activations still have to be recomputed, and in a group.
  std::unique_ptr<Network<float>> network;
  std::unique_ptr<GroupNetwork<float>> group;  ///< Null if we carry the stage alone.
  std::vector<float> truth;
  std::vector<float> inputs;
  std::vector<float> d_outputs;      ///< Last stage only: the gradient of the loss.
  std::vector<std::int32_t> labels;  ///< Last stage only: the labels in `truth`.
  /// The version of the parameters that the forward pass used.
  std::shared_ptr<std::vector<float>> parameters;
};

struct CarriedStage {
  using Parameters = std::shared_ptr<std::vector<float>>;

  /// Copies the parameters that `other` also holds into `values`, and their optimiser vectors into
  /// `others`.
  void copy_kept(const HeldParameters& other, std::span<float> values, Optimizer& others) const;
  /// Writes the state of a part of `size` parameters to `out`: the parameters, the optimiser's
  /// vectors, and the number of the optimiser's updates.
  void copy_state(const PartOfStage& part, std::size_t size, std::span<float> out) const;
  /// Takes over a part's state that copy_state() has written. An impossible optimiser state is
  /// replaced by zeros.
  void adopt_state(const PartOfStage& part, std::size_t size, std::span<const float> state);
  /// Adds the gradient of the last micro-batch to the sum of a run. Includes the parameters outside
  /// slices only if `with_common` is true.
  void add_gradient(bool with_common, const HeldValues<float>& sum) const;
  /// Returns a flight without a network, which reuses the memory of a finished flight.
  Flight begin_flight();
  /// Keeps the network and the memory of a finished flight for later flights.
  void keep_memory(Flight& flight);
  /// Undoes the updates of the run under way, and ends its flights.
  void abandon_run();

  HeldParameters held;
  Parameters newest;
  Parameters before = nullptr;  ///< The version before the newest, kept if the schedule needs it.
  std::uint32_t version = 0;
  Optimizer optimizer;
  /// The parameters before the run's first update, kept to undo a run with several updates; null in
  /// other runs.
  Parameters at_begin = nullptr;
  /// The optimiser at the time of `at_begin`.
  std::optional<Optimizer> optimizer_begin = std::nullopt;
  std::map<std::uint32_t, Flight> flights = {};
  std::vector<std::unique_ptr<Network<float>>> spare = {};
  GroupPlace place = {};  ///< The place for which `spare_groups` were made.
  std::vector<std::unique_ptr<GroupNetwork<float>>> spare_groups = {};
  std::vector<std::vector<float>> spare_inputs = {};
  std::vector<float> gradient;  ///< The gradient of one micro-batch, or the mean over several.
  ParameterBound bound;

 private:
  const std::vector<HeldRun>& runs_of(const PartOfStage& part) const;
};

}  // namespace gv
