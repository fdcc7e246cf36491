// How a drawn world goes: with all invariants, then healed and waited for.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "sim/virtual/draw.hpp"
#include "sim/virtual/invariants.hpp"

namespace gv {

/// How one world went.
struct Verdict {
  std::optional<Violation> violation;
  std::uint64_t trace_hash = 0;
  std::uint64_t events = 0;
  std::uint64_t exchanges = 0;   ///< Of which both sides were seen to cancel.
  std::uint64_t halves = 0;      ///< Excused by a fault.
  std::uint64_t operations = 0;  ///< In lockstep, finished by all or some.
  std::uint64_t runs = 0;        ///< Of pipelines, likewise.
  std::uint64_t fault_events = 0;
  /// A stage of a pipeline was lost with all its carriers and its copy: nobody could go on.
  bool stage_lost = false;
};

/// Runs a world: faults until scenario.until, then everything heals, and within a bounded time all
/// views must agree and every peer that trains must exchange, or make operations. `watcher` may be
/// null.
Verdict run_world(const DrawnWorld& world, Watcher* watcher = nullptr);

/// A world as small as can be found that fails in the same way: without rules, peers, time and
/// settings that it does not need. `tries` bounds the worlds that are run.
DrawnWorld shrink(const DrawnWorld& world, const Violation& violation, int tries = 400);

}  // namespace gv
