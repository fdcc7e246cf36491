// Signers of peers in tests, which know each other's signatures.
#pragma once

#include <map>
#include <utility>

#include "consensus/generation/equivocation.hpp"
#include "sim/virtual/stand_in_signer.hpp"

namespace gv {

/// The same object for the same peer, so that its owners are equal; lives as long as the program.
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
