// Pipeline schedules: for each worker the list of what it does to which micro-batch.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/problems.hpp"

namespace gv {

enum class PipelineAction : std::uint8_t {
  forward,          ///< A micro-batch through one stage.
  backward,         ///< Both of the following at once.
  backward_input,   ///< The gradient that the stage before waits for.
  backward_weight,  ///< The gradient of the stage's parameters.
  update,           ///< The optimiser's, with the gradients since the last one.
};

/// What an operation takes of a micro-batch's time in a stage, if it is not measured: backward is
/// about twice forward.
double part_of_stage(PipelineAction action);

/// One entry of a worker's list.
struct PipelineInstruction {
  PipelineAction action = PipelineAction::forward;
  std::uint32_t stage = 0;
  std::uint32_t micro_batch = 0;  ///< Of an update: how many came before.
  std::uint32_t version = 0;      ///< How many updates the parameters have that it works with.

  friend bool operator==(const PipelineInstruction&, const PipelineInstruction&) = default;
};

/// "F3", "B3", "I3" (input), "W3" (weights), "U0"; behind a point the stage, if it is given.
std::string to_string(const PipelineInstruction& operation, bool with_stage = false);

/// One run through a pipeline: some micro-batches through all stages and back, to the last update.
/// Parameters count as version 0 when it begins. A worker works through its list in order; an
/// operation waits for what it needs from other workers and for nothing else.
struct PipelineSchedule {
  std::size_t stages = 0;
  std::size_t micro_batches = 0;
  /// An update comes after so many of a worker's own micro-batches; 0: after all of them.
  std::size_t accumulate = 0;
  std::vector<std::vector<PipelineInstruction>> workers;
};

/// p stages, m micro-batches, times F, B (= I + W) and W of an operation in one stage. Bubble: the
/// time for which a worker has nothing to do, in a run without transfer times. In flight:
/// micro-batches whose activations stage s (from 0) keeps at most.
///
/// | kind        | bubble         | in flight    | staleness                                 |
/// |-------------|----------------|--------------|-------------------------------------------|
/// | gpipe       | (p-1)(F+B)     | m            | 0                                         |
/// | 1f1b        | (p-1)(F+B)     | min(p-s, m)  | 0                                         |
/// | zero-bubble | (p-1)(F+I-W)   | min(p, m)    | 0                                         |
/// | chimera     | (p-2)(F+B)/2   | at most p+1  | 0; every worker holds two stages          |
/// | pipedream   | none but ends  | min(p-s, m)  | p-1-s; as many versions and one more      |
/// | 2bw         | none but ends  | min(p-s, m)  | 1; two versions                           |
///
/// All that is for transfers that take no time; in 1f1b, zero-bubble and chimera others hold up
/// both their stages. With `ahead` those lists are made for transfers of so many passes' time,
/// which are then hidden behind computing, and stage s keeps ahead (p-1-s) more in flight; 2bw no
/// more than `accumulate`, with which two versions are still enough and the same training comes
/// out. The bubbles are the same; without it chimera's is larger where F and B differ.
///
/// (Huang 2019; Narayanan 2019 and 2021; Li and Hoefler 2021; Qi 2023, schedule ZB-H1. PipeDream
/// and 2BW fill and drain the pipeline once a run, whatever number of updates is in it.)
enum class PipelineKind : std::uint8_t {
  gpipe,
  one_f_one_b,
  zero_bubble,
  chimera,
  pipedream,
  two_bw
};

inline constexpr std::array pipeline_kinds = {PipelineKind::gpipe,       PipelineKind::one_f_one_b,
                                              PipelineKind::zero_bubble, PipelineKind::chimera,
                                              PipelineKind::pipedream,   PipelineKind::two_bw};

std::string_view to_string(PipelineKind kind);
std::optional<PipelineKind> pipeline_kind_named(std::string name);

/// Gradients are of the parameters they are applied to: one update, at the end.
constexpr bool is_synchronous(PipelineKind kind) {
  return kind != PipelineKind::pipedream && kind != PipelineKind::two_bw;
}

/// The most micro-batches whose activations a worker keeps for this stage, by the table above; one
/// of chimera's workers holds another stage beside it. `accumulate` counts for 2bw.
std::size_t in_flight_max(PipelineKind kind, std::size_t stages, std::size_t stage,
                          std::size_t micro_batches, std::size_t accumulate, std::size_t ahead);

/// The most versions of its parameters that this stage keeps.
std::size_t versions_max(PipelineKind kind, std::size_t stages, std::size_t stage);

/// routes[b][s]: the worker that carries micro-batch b through stage s and back.
using Routes = std::vector<std::vector<std::uint32_t>>;

/// All micro-batches through the same chain: worker s is stage s.
Routes straight_routes(std::size_t stages, std::size_t micro_batches);

/// Whether `ahead` makes a difference: gpipe is as far ahead as can be, and pipedream's gradients
/// would be staler with more in flight, which is other training.
constexpr bool can_go_ahead(PipelineKind kind) {
  return kind != PipelineKind::gpipe && kind != PipelineKind::pipedream;
}

/// What keeps `kind` from working over such routes, in words for people. `accumulate` is the number
/// of micro-batches between two updates of 2bw. Routes must be rectangular with all workers below
/// `workers`.
Problems problems(PipelineKind kind, const Routes& routes, std::size_t workers,
                  std::size_t accumulate);

/// The schedule of `kind` over these routes, which must have no problems; any routes will do for
/// gpipe, 1f1b and zero-bubble. A pure function: all who know the routes have the same lists.
/// Every worker's backward passes come in ascending order of micro-batches where routes are fixed
/// chains, so sums over micro-batches have one order, whichever synchronous kind it is.
///
/// (List scheduling in slots of equal length, backward passes first and forward passes as long as
/// activations may be kept, with transfers that take `ahead` slots. It gives the closed forms of
/// 1F1B and, for every number of micro-batches, Chimera's least makespan, 2m + p - 2 slots.)
PipelineSchedule make_schedule(PipelineKind kind, const Routes& routes, std::size_t workers,
                               std::size_t accumulate = 0, std::size_t ahead = 0);

}  // namespace gv
