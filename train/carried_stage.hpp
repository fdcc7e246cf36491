// A stage of a pipeline, or slices of one, as its carrier holds it.
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
  /// The version used in the forward pass.
  std::shared_ptr<std::vector<float>> parameters;
};

struct CarriedStage {
  using Parameters = std::shared_ptr<std::vector<float>>;

  /// Copies to `values` and to the vectors of `others` those parameters of this carrier that are
  /// also in `other`.
  void copy_kept(const HeldParameters& other, std::span<float> values, Optimizer& others) const;
  /// The state of a part of `size` parameters: the parameters, the optimiser's vectors, and its
  /// updates.
  void copy_state(const PartOfStage& part, std::size_t size, std::span<float> out) const;
  /// Takes over the state of a part that copy_state() wrote. An impossible optimiser state counts
  /// as 0.
  void adopt_state(const PartOfStage& part, std::size_t size, std::span<const float> state);
  /// Adds the gradient of the last micro-batch to the sum of a run.
  void add_gradient(bool with_common, const HeldValues<float>& sum) const;
  /// A flight without a network, in the memory of a finished one.
  Flight begin_flight();
  /// Keeps the network and the memory of a finished flight for others.
  void keep_memory(Flight& flight);
  /// Undoes the updates of the run under way, and ends its flights.
  void abandon_run();

  HeldParameters held;
  Parameters newest;
  Parameters before = nullptr;  ///< The version before the newest, kept if the schedule needs it.
  std::uint32_t version = 0;
  Optimizer optimizer;
  /// The parameters before the run's first update, to undo a run with several updates; else null.
  Parameters at_begin = nullptr;
  /// The optimiser at the time of `at_begin`.
  std::optional<Optimizer> optimizer_begin = std::nullopt;
  std::map<std::uint32_t, Flight> flights = {};
  std::vector<std::unique_ptr<Network<float>>> spare = {};
  GroupPlace place = {};  ///< The place for which `spare_groups` were made.
  std::vector<std::unique_ptr<GroupNetwork<float>>> spare_groups = {};
  std::vector<std::vector<float>> spare_inputs = {};
  std::vector<float> gradient;  ///< The gradient of one micro-batch, or a mean.
  ParameterBound bound;

 private:
  const std::vector<HeldRun>& runs_of(const PartOfStage& part) const;
};

}  // namespace gv
