// A virtual run as lines for people: one for each input to a peer, and one for each of its effects.
#pragma once

#include <functional>
#include <string>

#include "sim/virtual/simulator.hpp"

namespace gv {

/// "  1.250000  peer-3 <- peer-1  Offer 1/7" and, indented below, its effects. Ticks without
/// effects are left out.
class Trace : public Watcher {
 public:
  enum class Detail {
    everything,
    /// Without routine: leaves out steps, blocks, probes that find all well, rumours about third
    /// parties, and arrivals without consequences, which were shown when sent.
    story,
  };

  /// Each line goes to `line`, without its end.
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

  std::function<void(const std::string&)> line_;
  Detail detail_;
  std::string pending_;  ///< An input that is shown only if it has effects.
};

/// A message with its main fields: "Commit 2/5", "Ping 17 peer-3 suspect 1".
std::string to_string(const Message& message);

/// "peer-3".
std::string peer_name(PeerId id);

}  // namespace gv
