// What must hold of rounds of mixing, checked from outside: whoever mixes has what its neighbours
// sent it in this generation, each message once, and all that the round waits for.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "consensus/mixing/round_plan.hpp"
#include "sim/virtual/invariants.hpp"
#include "sim/virtual/simulator.hpp"

namespace gv {

/// Watches one run; sees nothing in a run of another mode. docs/simulator.md lists the invariants;
/// each is named where it is checked.
class MixingInvariants : public Watcher {
 public:
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override;

  const std::optional<Violation>& violation() const { return violation_; }
  /// Messages that were mixed.
  std::uint64_t mixed() const { return mixed_; }

 private:
  /// From whom to whom, in which round.
  using Name = std::tuple<PeerNumber, PeerNumber, std::uint64_t>;
  struct GenerationRecord {
    std::map<Name, Payload> sent;  ///< And not mixed yet.
    std::optional<RoundPlan> plan;
  };

  void fail(const Simulator& world, std::string invariant, std::string what);
  GenerationRecord& record(std::uint64_t key);
  void check_mixing(const Simulator& world, PeerNumber peer, const MixingMode& rounds,
                    const MixJob& mix);

  std::optional<Violation> violation_;
  std::map<std::uint64_t, GenerationRecord> generations_;  ///< By key, the newest few.
  std::deque<std::uint64_t> keys_;                         ///< Of these, as they were first seen.
  std::uint64_t mixed_ = 0;
};

}  // namespace gv
