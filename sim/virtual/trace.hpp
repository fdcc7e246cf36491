// A virtual run as lines for people: one for each input to a peer, and one for each thing it says.
#pragma once

#include <functional>
#include <string>

#include "sim/virtual/simulator.hpp"

namespace gv {

/// "  1.250000  peer-3 <- peer-1  Offer 1/7" and, indented below, what came of it. Ticks that lead
/// to nothing are left out.
class Trace : public Watcher {
 public:
  enum class Detail {
    everything,
    /// Without routine. Steps, blocks and probes that find all well are left out, as are rumours
    /// about third parties and whatever arrives without consequences: it was told when it was sent.
    story,
  };

  /// Each line is handed to `line`, without its end.
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
  std::string pending_;  ///< An input that is shown only if something comes of it.
};

/// A message with what matters of it: "Commit 2/5", "Ping 17 peer-3 suspect 1".
std::string to_string(const Message& message);

/// "peer-3".
std::string peer_name(PeerId id);

}  // namespace gv
