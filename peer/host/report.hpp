// A peer's report about itself at one moment, and the formats of that report.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "consensus/message/snapshot.hpp"
#include "peer/host/event_log.hpp"
#include "peer/modes/mode_report.hpp"
#include "peer/node/node.hpp"

namespace gv {

/// Figures of a running or finished peer. Rates are recent; counts are totals since the start.
struct Report {
  std::string name, id, listening, advertised, lanes;
  long pid = 0;
  double uptime_s = 0;
  std::string phase;
  std::uint64_t step = 0;
  std::uint64_t steps = 0;  ///< The peer's budget in steps; 0 if the budget is the swarm's.
  std::uint64_t samples = 0;
  double steps_per_second = 0, samples_per_second = 0;
  double loss = 0, learning_rate = 0;
  std::optional<double> accuracy;  ///< Empty if the samples have targets instead of labels.
  SaveCounts saves;
  ModeReport mode;
  std::uint64_t lane_bytes_sent = 0, lane_bytes_received = 0;
  /// Messages dropped on lanes because newer ones replaced them.
  std::uint64_t messages_superseded = 0;
  std::uint64_t control_bytes_sent = 0, control_bytes_received = 0;
  std::uint64_t control_messages_sent = 0, control_messages_received = 0;
  /// Number of refused links at the control port: unknown keys and differing hellos.
  std::uint64_t refused_links = 0;
  std::uint64_t failures_seen = 0;  ///< Number of members declared dead.
  /// All members; the flag is true for the peer itself.
  std::vector<std::pair<Member, bool>> members;
  /// For each member with a relayed lane, the name of the peer that relays it.
  std::map<PeerId, std::string> relays;
  std::uint64_t streams_relayed = 0;  ///< Streams that this peer now relays for others.
  std::uint64_t bytes_relayed = 0;
  std::vector<EventLog::Refusal> refusals;

  /// A peer that we ignore for a while.
  struct Quarantined {
    std::string peer, event, why;
    std::optional<double> seconds;  ///< Time left; nullopt means until our run ends.
  };
  std::vector<Quarantined> quarantined;
};

/// Returns the step, followed by `separator` and the budget. A budget of 0 means the swarm's budget
/// and is left out.
std::string step_of(std::uint64_t step, std::uint64_t steps, std::string_view separator = "/");

/// Fills in the part of a report that comes from the node and the log.
Report make_report(const Node& node, const EventLog& log, std::size_t batch, Time now);

/// Returns the document that `status` asks for, with the sections, columns and details of the
/// mode's report.
std::string report_json(const Report& report);

/// Returns one line of progress for the terminal.
std::string report_line(const Report& report);

/// Rewrites `file` with all figures in Prometheus' text format. Replaces the file by renaming, so
/// that a reader never sees half a file. Ignores failures, because the next rewrite comes soon.
void write_metrics(const std::filesystem::path& file, const Report& report);

}  // namespace gv
