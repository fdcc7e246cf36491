// Shows a virtual run as readable lines, one for each input to a peer and for each effect.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "sim/virtual/simulator.hpp"

namespace gv {

/// Writes lines such as "  1.250000  peer-3 <- peer-1  Offer 1/7", followed by indented effects.
/// Leaves out ticks without effects.
class Trace : public Watcher {
 public:
  enum class Detail {
    everything,
    /// Leaves out routine: steps, blocks, probes without news, rumours about third parties, and
    /// arrivals without effects, because their sending was shown.
    story,
  };

  /// `line` gets each line, without a line break.
  explicit Trace(std::function<void(const std::string&)> line, Detail detail = Detail::everything)
      : line_(std::move(line)), detail_(detail) {}

  void on_input(const Simulator& world, const Input& input) override;
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override;
  void on_fault_event(const Simulator& world, const FaultEvent& fault_event) override;
  void on_state(const Simulator& world, PeerNumber peer, PeerState state) override;

 private:
  bool is_told(const Input& input) const;
  bool is_told(PeerId from, const Outgoing& out) const;
  bool is_told(const Job& job) const;
  std::string ledger_news(PeerNumber peer, const Outgoing& out);

  std::function<void(const std::string&)> line_;
  Detail detail_;
  std::string pending_;                        ///< An input that is shown only if effects follow.
  std::map<PeerNumber, LedgerEntry> ledgers_;  ///< Each peer's last report about chunks.
};

/// A message with its main fields, for example "Commit 2/5" or "Ping 17 peer-3 suspect 1".
std::string to_string(const Message& message);

/// For example "peer-3".
std::string peer_name(PeerId id);

}  // namespace gv
