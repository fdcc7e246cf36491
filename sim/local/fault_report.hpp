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

namespace gv {

/// Counts of each event in a peer's log, from byte `offset` of its files on. The log outlives the
/// process, so killed incarnations count too. What no longer is in the log is not counted.
using EventCounts = std::map<std::string, std::uint64_t>;
EventCounts count_events(const std::filesystem::path& folder, std::uint64_t offset);

/// The bytes of a peer's log so far, in all its files.
std::uint64_t event_bytes(const std::filesystem::path& folder);

struct FaultReport {
  std::map<std::string, std::size_t> injected;  ///< By the kind's name.
  double down_s = 0;     ///< Over all peers: killed, or told to leave, by a fault and not yet back.
  double stopped_s = 0;  ///< Over all peers, by `stop` faults.
  std::vector<EventCounts> events;            ///< Events of each peer in all its incarnations.
  std::optional<FaultProxy::Counters> proxy;  ///< Set if there was a proxy.
};

/// Count of `event` in all logs.
std::uint64_t count(const FaultReport& report, const std::string& event);

/// Prints, for people, what the faults did to exchanges, or with `lockstep` to sums.
void print(const FaultReport& report, bool lockstep);
nlohmann::ordered_json to_json(const FaultReport& report);

}  // namespace gv
