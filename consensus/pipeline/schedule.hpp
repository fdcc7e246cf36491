// Pipeline schedules: for each worker a list of instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/names.hpp"
#include "base/problems.hpp"

namespace gv {

enum class PipelineAction : std::uint8_t {
  forward,         ///< Take a micro-batch forward through one stage.
  backward,        ///< Compute the gradients of the inputs and of the parameters at once.
  backward_input,  ///< Compute the gradient of the inputs, for which the previous stage is waiting.
  backward_weight,  ///< Compute the gradient of the stage's parameters.
  update,           ///< Make an optimiser step with the gradients computed since the last update.
};

/// The assumed fraction of a micro-batch's time in a stage that this action takes, until times are
/// measured. Backward takes about twice as long as forward.
double part_of_stage(PipelineAction action);

/// One instruction of a worker's list.
struct PipelineInstruction {
  PipelineAction action = PipelineAction::forward;
  std::uint32_t stage = 0;
  std::uint32_t micro_batch = 0;  ///< For an update, the number of updates before it.
  std::uint32_t version = 0;      ///< Number of updates made to the parameters in use.
  /// True in a test (see test_instructions). A forward pass then trains nothing, and a backward
  /// pass only returns the answer.
  bool tests = false;

  friend bool operator==(const PipelineInstruction&, const PipelineInstruction&) = default;
};

/// The action's letter and the micro-batch: "F3", "B3", "I3" (inputs), "W3" (weights) or "U0", and
/// in a test "T3" or "A3" (answer). If `with_stage` is true, a dot and the stage follow.
std::string to_string(const PipelineInstruction& operation, bool with_stage = false);

/// The instructions of a pipeline run. Micro-batches go through all stages forward and backward,
/// until the last update. Parameters have version 0 at the start. A worker executes its list in
/// order. An instruction waits only for the results that it needs from other workers.
struct PipelineSchedule {
  std::size_t stages = 0;
  std::size_t micro_batches = 0;
  /// Number of a worker's own micro-batches between two updates; 0 means all of them.
  std::size_t accumulate = 0;
  std::vector<std::vector<PipelineInstruction>> workers;
};

/// The kinds of schedule, for p stages and m micro-batches. In one stage, a forward pass takes F,
/// and a backward pass B = I + W: I for the inputs and W for the weights. Bubble: the time for
/// which a worker is idle in a run. In flight: the largest number of micro-batches whose
/// activations stage s (from 0) keeps.
///
/// | kind        | bubble         | in flight    | staleness                                 |
/// |-------------|----------------|--------------|-------------------------------------------|
/// | gpipe       | (p-1)(F+B)     | m            | 0                                         |
/// | 1f1b        | (p-1)(F+B)     | min(p-s, m)  | 0                                         |
/// | zero-bubble | (p-1)(F+I-W)   | min(p, m)    | 0                                         |
/// | chimera     | (p-2)(F+B)/2   | at most p+1  | 0; every worker holds two stages          |
/// | pipedream   | only at ends   | min(p-s, m)  | p-1-s; p-s versions                       |
/// | 2bw         | only at ends   | min(p-s, m)  | 1; two versions                           |
///
/// The table assumes that transfers take no time. In 1f1b, zero-bubble and chimera, a transfer that
/// takes time holds up the stages at both its ends. With `ahead`, the lists are made for transfers
/// that take as long as `ahead` passes. Computing then hides the transfers, and stage s keeps
/// `ahead` * (p-1-s) more micro-batches in flight. 2bw keeps at most `accumulate` in flight, so
/// that two versions are still enough and training does not change. The bubbles do not depend on
/// `ahead`, except that chimera's is larger without it if F and B differ.
///
/// (Huang 2019; Narayanan 2019 and 2021; Li and Hoefler 2021; Qi 2023, schedule ZB-H1. PipeDream
/// and 2BW fill and drain the pipeline once in a run, however many updates it has.)
enum class PipelineKind : std::uint8_t {
  gpipe,
  one_f_one_b,
  zero_bubble,
  chimera,
  pipedream,
  two_bw
};

inline constexpr auto pipeline_names =
    names_of<PipelineKind>({"gpipe", "1f1b", "zero-bubble", "chimera", "pipedream", "2bw"});
inline constexpr auto pipeline_kinds = pipeline_names.kinds();
constexpr std::string_view to_string(PipelineKind kind) { return pipeline_names[kind]; }

/// True if gradients update the very parameters that they were computed with. There is then one
/// update, at the end of a run.
constexpr bool is_synchronous(PipelineKind kind) {
  return kind != PipelineKind::pipedream && kind != PipelineKind::two_bw;
}

/// The largest number of micro-batches whose activations a worker keeps for this stage (see the
/// table above). A worker of chimera also keeps those of its second stage. Only 2bw uses
/// `accumulate`.
std::size_t in_flight_max(PipelineKind kind, std::size_t stages, std::size_t stage,
                          std::size_t micro_batches, std::size_t accumulate, std::size_t ahead);

/// The largest number of versions of its parameters that a stage keeps.
std::size_t versions_max(PipelineKind kind, std::size_t stages, std::size_t stage);

/// routes[b][s] is the worker that carries micro-batch b through stage s and back.
using Routes = std::vector<std::vector<std::uint32_t>>;

/// Routes with the same chain for all micro-batches: worker s carries stage s.
Routes straight_routes(std::size_t stages, std::size_t micro_batches);

/// True if `ahead` makes a difference. gpipe is already as far ahead as possible. With pipedream,
/// more micro-batches in flight would make gradients staler, which changes training.
constexpr bool can_go_ahead(PipelineKind kind) {
  return kind != PipelineKind::gpipe && kind != PipelineKind::pipedream;
}

/// Lists why `kind` cannot work with these routes. `accumulate` is the number of micro-batches
/// between two updates of 2bw. Routes must be rectangular, with all workers below `workers`.
Problems problems(PipelineKind kind, const Routes& routes, std::size_t workers,
                  std::size_t accumulate);

/// The schedule of `kind` over these routes, for which problems() must be empty. gpipe, 1f1b and
/// zero-bubble accept any routes. The function is pure: all peers with equal routes get equal
/// lists. If routes are fixed chains, every worker's backward passes come in ascending order of
/// micro-batches, so all synchronous kinds sum over micro-batches in the same order.
///
/// (List scheduling in slots of equal length, with transfers that take `ahead` slots. Backward
/// passes go first, and forward passes follow as long as more activations may be kept. This gives
/// the closed forms of 1F1B and, for every number of micro-batches, Chimera's shortest makespan, 2m
/// + p - 2 slots.)
PipelineSchedule make_schedule(PipelineKind kind, const Routes& routes, std::size_t workers,
                               std::size_t accumulate = 0, std::size_t ahead = 0);

/// The instructions of one worker in a test of the model, which comes before a run's first update.
/// One or more micro-batches of test samples, numbered from `first` on, go forward over these
/// routes, and an empty answer goes back from the last stage. A worker takes a micro-batch forward
/// only after it has the answers to all micro-batches that are `window` or more places earlier.
/// This keeps results from piling up before a slow stage. The last `window` micro-batches have no
/// answers. Workers never deadlock, because all lists keep the order of one common list.
std::vector<PipelineInstruction> test_instructions(const Routes& routes, std::uint32_t worker,
                                                   std::uint32_t first, std::size_t window);

}  // namespace gv
