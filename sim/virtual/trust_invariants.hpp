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

/// True if this peer does not belong to the swarm, or does not belong to it yet: it has been
/// revoked, or no other honest peer accepts it. Such a peer need not make progress.
bool is_out(const Simulator& world, PeerNumber peer);

/// Watches one run, and does nothing in worlds without tickets. docs/simulator.md lists the
/// invariants, and the code names each invariant at its check.
class TrustInvariants : public Checker {
 public:
  void after(const Simulator& world, PeerNumber peer) override;

  /// Call twice in the half minute after the world has healed, some seconds apart. By the second
  /// call, a revocation that one peer had at the first call must have reached all of that peer's
  /// contacts.
  void look_for_lag(const Simulator& world);
  /// Call when all views agree.
  void check_cut_off(const Simulator& world);

 private:
  /// A peer, and a revoked peer that it still admits.
  using Lag = std::pair<PeerNumber, PeerNumber>;

  std::set<Lag> lag_;                         ///< Lags at the last look_for_lag().
  std::map<PeerNumber, std::uint64_t> seen_;  ///< Trust::changes() of each peer when last seen.
};

/// Lets an honest peer invite a guest, lets most of the lifetime of all certificates pass, and
/// revokes the guest. Returns a violation if the guest is not known in time, a certificate is not
/// renewed, or the guest is still accepted. Advances the world.
std::optional<Violation> check_invitations(Simulator& world);

}  // namespace gv
