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

/// The decision of a ballot whose proposer is `signer`.
Install signed_install(Generation generation, const Signer& signer);

/// The part of an Install that lets every peer compare it with another.
Decision decision_in(const Install& install, const Signer& signer);

/// True if the proposer of the decision's ballot has signed it.
bool is_signed(const Decision& decision, const Signer& signer);

/// True if the two are different decisions of one ballot and its proposer has signed both.
bool is_proof(const Equivocation& claim, const Signer& signer);

/// Compares the decisions that proposers send to us and to others. Every peer shows each decision
/// that it accepts to all live peers. So two sound peers that have different decisions of a ballot
/// find the difference at once, however many others are hostile or have no decision. Both
/// signatures together are a proof, which every peer checks for itself and passes on to all. Pure.
class EquivocationWatch {
 public:
  /// `signer` must outlive this object.
  EquivocationWatch(PeerId self, const Signer& signer) : self_(self), signer_(&signer) {}

  /// The result of a comparison.
  struct Finding {
    std::vector<PeerId> forgers;        ///< Peers that showed a decision without its signature.
    std::optional<Equivocation> proof;  ///< Against a proposer that is not convicted yet.
  };

  /// Compares a decision that our proposer has sent us, whose signature we have checked, and shows
  /// it to all others in `present` but the proposer.
  Finding accept(const Decision& decision, const std::vector<PeerId>& present, Effects& out);
  /// True if we have accepted a decision of this ballot, or this very decision. One that comes
  /// again need not be judged again.
  bool has_accepted(const GenerationId& ballot) const;
  bool holds(const Decision& decision) const;
  /// Compares a decision that `holder` shows us. Checks signatures only if two decisions differ.
  Finding hear(PeerId holder, const Decision& decision);

  /// Keeps a proof, which is shown at once. The convicted peer must not be convicted yet.
  void convict(const Equivocation& proof);
  bool is_convicted(PeerId peer) const { return proofs_.contains(peer); }
  /// Shows all proofs to `present`, which is sorted, when that is due. They are shown again every
  /// ten seconds, as a peer may have restarted. Forgets the decisions of others.
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
  Time shows_at_{};                               ///< When the proofs are next shown.
};

}  // namespace gv
