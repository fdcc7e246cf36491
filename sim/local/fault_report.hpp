// The faults injected into a run and their cost, for people and for summary.json.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "sim/local/fault_proxy.hpp"
#include "sim/local/injector.hpp"

namespace gv {

/// Counts each kind of event in a peer's log, starting at byte `offset` of its files. The log
/// outlives the process, so the counts include killed incarnations, but not events that were
/// already deleted from the log.
using EventCounts = std::map<std::string, std::uint64_t>;
EventCounts count_events(const std::filesystem::path& folder, std::uint64_t offset);

/// The current size of a peer's log, over all its files.
std::uint64_t event_bytes(const std::filesystem::path& folder);

struct FaultReport {
  /// Number of faults injected, by the name of their kind.
  std::map<std::string, std::size_t> injected;
  std::vector<SkippedFault> skipped;  ///< Faults that found no target, in order of time.
  /// Seconds, over all peers, between a fault that killed a peer or made it leave and the peer's
  /// restart.
  double down_s = 0;
  double stopped_s = 0;             ///< Seconds that `stop` faults lasted, over all peers.
  std::vector<EventCounts> events;  ///< Events of each peer, over all of the peer's incarnations.
  std::optional<FaultProxy::Counters> proxy;  ///< The proxy's counters, if there was a proxy.
};

/// How often `event` occurs in all logs.
std::uint64_t count(const FaultReport& report, const std::string& event);

/// Prints the effect of the faults on exchanges or, with `lockstep`, on sums.
void print(const FaultReport& report, bool lockstep);
nlohmann::ordered_json to_json(const FaultReport& report);

}  // namespace gv
