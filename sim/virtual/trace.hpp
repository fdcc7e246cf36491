// A virtual run as lines for people: one for each input to a peer, and one for each thing it says.
#pragma once

#include <functional>
#include <string>

#include "sim/virtual/simulator.hpp"

namespace gv {

/// "  1.250000  peer-3 <- peer-1  Offer 1/7" and, indented below, what came of it. Ticks that lead
/// to nothing are left out, as are repetitions of progress.
class Trace : public Watcher {
 public:
  /// Each line is handed to `line`, without its end.
  explicit Trace(std::function<void(const std::string&)> line) : line_(std::move(line)) {}

  void on_input(const Simulator& world, const Input& input) override;
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override;
  void on_happening(const Simulator& world, const Happening& happening) override;
  void on_state(const Simulator& world, PeerNumber peer, PeerState state) override;

 private:
  std::function<void(const std::string&)> line_;
  std::string pending_;  ///< A tick, shown only if something comes of it.
};

/// A message with what matters of it: "Commit 2/5", "Ping 17 peer-3 suspect 1".
std::string to_string(const Message& message);

/// "peer-3".
std::string peer_name(PeerId id);

}  // namespace gv
