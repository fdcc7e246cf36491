// Signatures by the keys of peers, as protocols see them: which keys and which cryptography is the
// affair of what runs the node.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.hpp"

namespace gv {

/// By the key of one peer over some bytes.
using Signature = std::array<std::uint8_t, 64>;

/// Signs as this peer, and judges signatures of all peers of the allow-list. What is signed is
/// canonical_bytes() of a struct in a domain of its own, so that a signature for one purpose is of
/// no use for another. Owned by what runs the node, and outlives it.
class Signer {
 public:
  virtual ~Signer() = default;

  virtual Signature sign(std::span<const std::byte> bytes) const = 0;

  /// True if the peer `signer` is on the allow-list and its key signed these bytes.
  virtual bool verify(PeerId signer, std::span<const std::byte> bytes,
                      const Signature& signature) const = 0;
};

}  // namespace gv
