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
  std::uint64_t exchanges = 0;   ///< Exchanges whose two sides cancelled exactly.
  std::uint64_t halves = 0;      ///< Exchanges applied on one side only, excused by a fault.
  std::uint64_t operations = 0;  ///< Mode `allreduce`: collectives finished by at least one peer.
  std::uint64_t ended = 0;       ///< Peers that ended with the swarm's common mean.
  std::uint64_t runs = 0;        ///< Mode `pipeline`: runs finished by at least one peer.
  std::uint64_t fault_events = 0;
  std::uint64_t hostile = 0;  ///< Hostile peers.
  /// A stage of a pipeline was lost with all its carriers and its copy, so no peer could continue.
  bool stage_lost = false;
};

/// Runs a world with faults until scenario.until, then heals it. Within a bounded time all views
/// must agree, and every training peer must exchange or finish operations. `watcher` may be null.
Verdict run_world(const DrawnWorld& world, Watcher* watcher = nullptr);

/// A question about a world.
using WorldTest = std::function<bool(const DrawnWorld&)>;

/// Returns the smallest world found that still fails, without needless rules, peers, time and
/// settings. Only legal worlds are tried, so that a config of the result is accepted. Asks at most
/// `tries` times whether a world fails.
DrawnWorld shrink(const DrawnWorld& world, const WorldTest& is_legal, const WorldTest& fails,
                  int tries = 400);

}  // namespace gv
