// Invariants of mode `mixing`, checked from outside: a peer mixes exactly the messages that its
// neighbours sent it in this generation, each once, and all that its round waits for.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "consensus/mixing/round_plan.hpp"
#include "peer/modes/mixing.hpp"
#include "sim/virtual/invariants.hpp"
#include "sim/virtual/simulator.hpp"

namespace gv {

/// Watches one run, and does nothing in other modes. docs/simulator.md lists the invariants; each
/// is named where it is checked.
class MixingInvariants : public Checker {
 public:
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override;

  /// Messages that were mixed.
  std::uint64_t mixed() const { return mixed_; }

 private:
  /// Sender, receiver and round.
  using Name = std::tuple<PeerNumber, PeerNumber, std::uint64_t>;
  struct GenerationRecord {
    std::map<Name, Payload> sent;  ///< Messages sent and not mixed yet.
    std::optional<RoundPlan> plan;
  };

  GenerationRecord& record(std::uint64_t key);
  void check_mixing(const Simulator& world, PeerNumber peer, const MixingMode& rounds,
                    const task::MixRound& mix);

  std::map<std::uint64_t, GenerationRecord> generations_;  ///< The newest few, by key.
  std::deque<std::uint64_t> keys_;                         ///< Their keys, in order of appearance.
  std::uint64_t mixed_ = 0;
};

}  // namespace gv
