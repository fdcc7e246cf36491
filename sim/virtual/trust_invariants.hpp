// Invariants of swarms with certificates, checked from outside: no strangers, no unjustified
// revocations, and no revoked peers.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "sim/virtual/invariants.hpp"

namespace gv {

/// True if this peer no longer belongs to the swarm, or does not belong to it yet in the others'
/// view: it has been revoked, or no other sound peer accepts it. Then it need not make progress.
bool is_out(const Simulator& world, PeerNumber peer);

/// Watches one run, and does nothing in worlds without tickets. docs/simulator.md lists the
/// invariants; each is named where it is checked.
class TrustInvariants : public Checker {
 public:
  void after(const Simulator& world, PeerNumber peer) override;

  /// Call twice in the half minute after the world has healed, with some seconds between. No peer
  /// in contact with one that knows of a revocation may lack the revocation both times.
  void look_for_lag(const Simulator& world);
  /// Call when all views agree.
  void check_cut_off(const Simulator& world);

 private:
  /// A peer, and a revoked one that it still admits.
  using Lag = std::pair<PeerNumber, PeerNumber>;

  std::set<Lag> lag_;                         ///< Lags at the last look.
  std::map<PeerNumber, std::uint64_t> seen_;  ///< The last seen number of changes of each peer's
                                              ///< certificates.
};

/// Invites a guest at a sound peer that may invite, lets most of the lifetime of all certificates
/// pass, and revokes the guest. Returns what is missing in the end. Advances the world.
std::optional<Violation> check_invitations(Simulator& world);

}  // namespace gv
