// What was injected into a run and what it cost, for people and for summary.json.
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

/// How often each event stands in a peer's log, from byte `offset` on. The log outlives the
/// process, so lives that were killed count too.
using EventCounts = std::map<std::string, std::uint64_t>;
EventCounts count_events(const std::filesystem::path& log, std::uint64_t offset);

struct FaultReport {
  std::map<std::string, std::size_t> injected;  ///< By the kind's name.
  double down_s = 0;     ///< Over all peers: killed or left by a fault, and not yet back.
  double stopped_s = 0;  ///< Over all peers, by `stop` faults.
  std::vector<EventCounts> events;            ///< Of each peer in all its lives.
  std::optional<FaultProxy::Counters> proxy;  ///< When there was one.
};

/// How often `event` stands in all logs.
std::uint64_t count(const FaultReport& report, const std::string& event);

/// For people; what the faults did to exchanges, or in lockstep to sums.
void print(const FaultReport& report, bool lockstep);
nlohmann::ordered_json to_json(const FaultReport& report);

}  // namespace gv
