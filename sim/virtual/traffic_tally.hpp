// Counts the bytes of small messages in a virtual run, by kind.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "sim/virtual/simulator.hpp"

namespace gv {

/// Number of bytes of the message on a control link.
std::uint64_t bytes_on_link(const Message& message);

/// Counts the small messages that peers send, and their bytes on a control link. Models and sums
/// are not counted.
class TrafficTally : public Watcher {
 public:
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override;

  struct Kind {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
  };
  /// Counts by the name of the message's struct.
  const std::map<std::string, Kind>& kinds() const { return kinds_; }
  /// Bytes of all kinds together.
  std::uint64_t bytes() const { return bytes_; }
  /// Bytes of messages that report training work, including the ledger if data are leased.
  std::uint64_t work_bytes() const { return work_bytes_; }
  /// Bytes of the longest message.
  std::uint64_t longest() const { return longest_; }
  /// All counts as JSON, and the bytes per second and peer. `peer_seconds` is the running time
  /// summed over all peers.
  std::string to_json(double peer_seconds) const;

 private:
  std::map<std::string, Kind> kinds_;
  std::uint64_t bytes_ = 0;
  std::uint64_t work_bytes_ = 0;
  std::uint64_t longest_ = 0;
};

}  // namespace gv
