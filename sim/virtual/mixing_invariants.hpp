// Invariants of mode `mixing`, checked from outside. A peer mixes messages exactly as its
// neighbours sent them in this generation, and each message at most once. It mixes all messages
// that its round must wait for.
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

/// Watches one run, and does nothing in other modes. docs/simulator.md lists the invariants;
/// comments in the code name each one where it is checked.
class MixingInvariants : public Checker {
 public:
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override;

  /// Number of messages that were mixed.
  std::uint64_t mixed() const { return mixed_; }

 private:
  /// Sender, receiver and round.
  using Name = std::tuple<PeerNumber, PeerNumber, std::uint64_t>;
  struct GenerationRecord {
    std::map<Name, Payload> sent;  ///< Messages that have been sent and not mixed yet.
    std::optional<RoundPlan> plan;
  };

  GenerationRecord& record(std::uint64_t key);
  void check_mixing(const Simulator& world, PeerNumber peer, const MixingMode& rounds,
                    const task::MixRound& mix);

  std::map<std::uint64_t, GenerationRecord> generations_;  ///< The newest generations, by key.
  std::deque<std::uint64_t> keys_;  ///< Keys of `generations_`, oldest first.
  std::uint64_t mixed_ = 0;
};

}  // namespace gv
