// Finds proposers that send different peers different decisions of one ballot.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <vector>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// Signs the decision of a ballot whose proposer is `signer`.
Install signed_install(Generation generation, const Signer& signer);

/// Returns the decision in an Install, in the form in which peers compare it.
Decision decision_in(const Install& install, const Signer& signer);

/// True if the decision is signed by the proposer of its ballot.
bool is_signed(const Decision& decision, const Signer& signer);

/// True if the two decisions differ, are of one ballot, and are both signed by its proposer.
bool is_proof(const Equivocation& claim, const Signer& signer);

/// Compares the decisions that proposers send to us and to others. Every peer shows each decision
/// that it accepts to all live peers. So if two honest peers get different decisions of a ballot,
/// they find out at once, however many others are hostile or have no decision. The two signatures
/// together are a proof, which every peer checks for itself and passes on to all. Pure.
class EquivocationWatch {
 public:
  /// `signer` must outlive this object.
  EquivocationWatch(PeerId self, const Signer& signer) : self_(self), signer_(&signer) {}

  /// The result of a comparison.
  struct Finding {
    std::vector<PeerId> forgers;        ///< Peers that showed us decisions without the proposer's
                                        ///< signature.
    std::optional<Equivocation> proof;  ///< A proof against a proposer that is not convicted yet.
  };

  /// Compares a decision that we received from its proposer, and shows it to all other peers in
  /// `present`. The caller has checked the signature.
  Finding accept(const Decision& decision, const std::vector<PeerId>& present, Effects& out);
  /// has_accepted() is true if we have accepted any decision of the ballot, and holds() if we have
  /// accepted exactly this decision. A repeated decision need not be judged again.
  bool has_accepted(const GenerationId& ballot) const;
  bool holds(const Decision& decision) const;
  /// Compares a decision that `holder` shows us. Checks signatures only if two decisions differ.
  Finding hear(PeerId holder, const Decision& decision);

  /// Keeps a proof against a proposer that is not convicted yet, so that show_proofs() shows it.
  void convict(const Equivocation& proof);
  bool is_convicted(PeerId peer) const { return proofs_.contains(peer); }
  /// If it is time, shows all proofs to the peers in `present`, which must be sorted. A new proof
  /// is shown at once. All proofs are repeated every ten seconds, because a peer may have
  /// restarted. Forgets decisions shown by peers outside `present`.
  void show_proofs(Time now, const std::vector<PeerId>& present, Effects& out);
  Time deadline() const { return proofs_.empty() ? never : shows_at_; }

  const Signer& signer() const { return *signer_; }
  /// The proofs, by convicted peer.
  const std::map<PeerId, Equivocation>& proofs() const { return proofs_; }

  friend class Fields;
  static constexpr std::size_t field_count = 5;
  friend bool operator==(const EquivocationWatch& a, const EquivocationWatch& b);

 private:
  PeerId self_;
  const Signer* signer_;
  std::map<PeerId, std::vector<Decision>> held_;  ///< The newest decisions of each peer, oldest
                                                  ///< first.
  std::map<PeerId, Equivocation> proofs_;         ///< Proofs by convicted peer.
  Time shows_at_{};                               ///< When to show the proofs next.
};

}  // namespace gv
