// A peer's report about itself at one moment, and its forms.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "consensus/message/snapshot.hpp"
#include "peer/host/event_log.hpp"
#include "peer/node/node.hpp"

namespace gv {

/// Figures of a running or finished peer. Rates are recent, counts are since the start.
struct Report {
  std::string name, id, listening, advertised, lanes;
  long pid = 0;
  double uptime_s = 0;
  std::string phase;
  std::uint64_t step = 0, steps = 0, samples = 0;
  double steps_per_second = 0, samples_per_second = 0;
  double loss = 0, accuracy = 0, learning_rate = 0;
  ModeKind mode = ModeKind::gossip;  ///< Only figures of this mode count.
  double spread = 0;  ///< Estimated from the distance to the last partner: sqrt((n-1)/2n) of it.
  PairExchange::Counts exchanges;
  SaveCounts saves;
  GossipCounts gossip;
  bool population = false;  ///< True in a population: the next two count.
  std::optional<Trial> trial;
  std::uint64_t copies = 0;  ///< Copies of other peers, taken over by this peer.
  AllReduceCounts allreduce;
  PipelineCounts pipeline;
  MixingCounts mixing;
  MixRule rule;               ///< Rule of mode `mixing`.
  SettingsRevision revision;  ///< Settings revision that the rule comes from; number 0: the config.
  std::uint64_t ruled_since = 0;             ///< Step from which the rule applies.
  std::size_t together = 0;                  ///< Peers in the generation.
  std::vector<std::string> hears, heard_by;  ///< Neighbours in the round under way, by name.
  std::string schedule, router;
  std::vector<std::uint32_t> own_stages;         ///< Stages carried now.
  std::vector<std::vector<std::string>> stages;  ///< Names of each stage's carriers.
  std::vector<double> stage_work;       ///< Estimated part of the model's work in each stage.
  std::string algorithm;                ///< Algorithm of sums.
  std::string recovery;                 ///< The newest recovery, for people; empty: none.
  std::uint64_t resumed_at = 0;         ///< The first operation after it.
  std::vector<std::string> ring_order;  ///< Names of the peers that sum now, by rank.
  /// The link that their sums wait for, by the names of its ends, and its measurements; 0 bytes a
  /// second: not measured yet.
  std::string slowest_from, slowest_to;
  double slowest_latency_s = 0, slowest_bytes_per_second = 0;
  std::uint64_t lane_bytes_sent = 0, lane_bytes_received = 0;
  std::uint64_t messages_superseded = 0;  ///< Mode `mixing`: messages dropped for newer ones.
  std::uint64_t control_bytes_sent = 0, control_bytes_received = 0;
  std::uint64_t control_messages_sent = 0, control_messages_received = 0;
  std::uint64_t refused_links = 0;  ///< Strangers and disagreeing hellos on the control port.
  std::uint64_t failures_seen = 0;  ///< Members declared dead.
  std::vector<std::pair<Member, bool>> members;  ///< Members, and whether each is the peer itself.
  std::vector<EventLog::Refusal> refusals;
};

/// The part of a report that comes from the node and the log.
Report make_report(const Node& node, const EventLog& log, std::size_t batch, Time now);

/// One line: the lost peers, the seconds, and the number of peers that went on.
std::string to_line(const Recovery& recovery, const Membership& membership);

/// The document that `status` asks for, with a part "allreduce", "pipeline" or "mixing", or in
/// gossip "gossip", "exchanges" and "spread".
std::string report_json(const Report& report);

/// One line of progress for people.
std::string report_line(const Report& report);

/// Rewrites `file` with every figure in Prometheus' text format, by renaming, so that a reader
/// never sees half of it. Ignores failures: the next rewrite comes soon.
void write_metrics(const std::filesystem::path& file, const Report& report);

}  // namespace gv
