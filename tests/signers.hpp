// Signers for peers in tests. They can verify each other's signatures.
#pragma once

#include <map>
#include <utility>

#include "consensus/generation/equivocation.hpp"
#include "sim/virtual/stand_in_signer.hpp"

namespace gv {

/// The signer of a peer. It lives as long as the program. Calls for the same peer return the same
/// object, so that objects that refer to it compare equal.
inline const Signer& signer_of(PeerId peer) {
  static std::map<PeerId, StandInSigner> signers;
  return signers.try_emplace(peer, peer, 42).first->second;
}

/// The decision of a ballot, signed by its proposer.
inline Install installed(Generation generation) {
  const Signer& proposer = signer_of(generation.id.proposer);
  return signed_install(std::move(generation), proposer);
}

}  // namespace gv
