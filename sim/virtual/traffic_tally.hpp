// How many bytes of small messages a virtual run sends, by kind.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "sim/virtual/simulator.hpp"

namespace gv {

/// Bytes of the message on a control link.
std::uint64_t bytes_on_link(const Message& message);

/// Counts the small messages that peers send and their bytes on a control link. Models and sums do
/// not count.
class TrafficTally : public Watcher {
 public:
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override;

  struct Kind {
    std::uint64_t messages = 0;
    std::uint64_t bytes = 0;
  };
  /// By the name of the message's struct.
  const std::map<std::string, Kind>& kinds() const { return kinds_; }
  /// Bytes of all kinds together.
  std::uint64_t bytes() const { return bytes_; }
  /// Those that report what peers have trained, with the ledger where data are leased.
  std::uint64_t work_bytes() const { return work_bytes_; }
  /// The longest message.
  std::uint64_t longest() const { return longest_; }
  /// All of that as JSON, with bytes for a second and peer. `peer_seconds`: time of all peers.
  std::string to_json(double peer_seconds) const;

 private:
  std::map<std::string, Kind> kinds_;
  std::uint64_t bytes_ = 0;
  std::uint64_t work_bytes_ = 0;
  std::uint64_t longest_ = 0;
};

}  // namespace gv
