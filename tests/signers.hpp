// Signers of peers in tests, which know each other's signatures.
#pragma once

#include <map>

#include "sim/virtual/stand_in_signer.hpp"

namespace gv {

/// The same object for the same peer, so that its owners are equal; lives as long as the program.
inline const Signer& signer_of(PeerId peer) {
  static std::map<PeerId, StandInSigner> signers;
  return signers.try_emplace(peer, peer, 42).first->second;
}

}  // namespace gv
