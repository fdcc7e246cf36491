// Invariants of swarms with certificates, checked from outside: no stranger, no one out without
// right, and no revoked peer in.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "sim/virtual/invariants.hpp"

namespace gv {

/// True if this peer does not belong to the swarm any more, or not yet to the others: it has been
/// revoked, or no other sound peer accepts it. Then it need not make progress.
bool is_out(const Simulator& world, PeerNumber peer);

/// Watches one run, and does nothing in worlds without tickets. docs/simulator.md lists the
/// invariants; each is named where it is checked.
class TrustInvariants : public Checker {
 public:
  void after(const Simulator& world, PeerNumber peer) override;

  /// Call twice in the half minute after the world has healed, with some seconds between: no peer
  /// that is in touch with one that knows of a revocation may lack it both times.
  void look_for_lag(const Simulator& world);
  /// Call when all views agree.
  void check_cut_off(const Simulator& world);

 private:
  /// A peer, and a revoked one that it still lets in.
  using Lag = std::pair<PeerNumber, PeerNumber>;

  std::set<Lag> lag_;                         ///< At the last look.
  std::map<PeerNumber, std::uint64_t> seen_;  ///< The changes of each peer's certificates.
};

/// Invites a guest at a sound peer that may, lets most of the life of all certificates pass, and
/// revokes the guest. Returns what is missing in the end. Runs the world on.
std::optional<Violation> check_invitations(Simulator& world);

}  // namespace gv
