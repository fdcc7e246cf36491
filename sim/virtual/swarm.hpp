// Runs a drawn world with all invariants, then heals it and waits for progress.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "sim/virtual/draw.hpp"
#include "sim/virtual/invariants.hpp"

namespace gv {

/// The result of one world.
struct Verdict {
  std::optional<Violation> violation;
  std::uint64_t trace_hash = 0;
  std::uint64_t events = 0;
  /// Number of exchanges in which the two sides' changes cancelled exactly.
  std::uint64_t exchanges = 0;
  std::uint64_t halves = 0;      ///< Number of exchanges that only one side applied.
  std::uint64_t operations = 0;  ///< Mode `allreduce`: number of finished collectives.
  std::uint64_t ended = 0;       ///< Number of peers that ended with the swarm's common mean.
  std::uint64_t runs = 0;        ///< Mode `pipeline`: number of finished runs.
  std::uint64_t fault_events = 0;
  std::uint64_t hostile = 0;  ///< Number of hostile peers.
  /// True if a pipeline's stage was lost with all its carriers and its copy, so that no peer could
  /// continue.
  bool stage_lost = false;
};

/// True if this lack of progress may come from the loss of a pipeline's stage, so that the peers
/// that need the stage are right to wait. Members and modes do not depend on stages.
bool may_wait_for_stage(const Violation& violation);

/// Runs a world with faults until scenario.until, then heals it. Within a bounded time, all views
/// must agree, and every training peer must complete an exchange, collective, run or round.
/// `watcher` may be null.
Verdict run_world(const DrawnWorld& world, Watcher* watcher = nullptr);

/// A yes-or-no question about a world.
using WorldTest = std::function<bool(const DrawnWorld&)>;

/// Returns the smallest failing world that it finds, without needless rules, peers, time and
/// settings. Tries only legal worlds, so that a config of the result is accepted. Calls `fails` at
/// most `tries` times.
DrawnWorld shrink(const DrawnWorld& world, const WorldTest& is_legal, const WorldTest& fails,
                  int tries = 400);

}  // namespace gv
