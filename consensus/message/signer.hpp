// The interface through which protocols sign and verify. The node's owner picks the cryptography.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.hpp"

namespace gv {

/// The public key of a peer or of a swarm.
using PeerKey = std::array<std::uint8_t, 32>;

/// A signature over some bytes, made with one peer's key.
using Signature = std::array<std::uint8_t, 64>;

/// A collision-resistant digest: finding two inputs with the same digest is infeasible.
using Digest = std::array<std::uint8_t, 32>;

/// Signs as this peer, and verifies signatures of all peers on the allow-list. Callers sign a
/// struct's canonical_bytes() in a separate domain for each purpose, so that a signature for one
/// purpose is useless for another. The node's owner also owns the signer, which must outlive the
/// node.
class Signer {
 public:
  virtual ~Signer() = default;

  virtual Signature sign(std::span<const std::byte> bytes) const = 0;

  /// True if the peer `signer` is on the allow-list and signed these bytes with its key.
  virtual bool verify(PeerId signer, std::span<const std::byte> bytes,
                      const Signature& signature) const = 0;

  virtual Digest digest(std::span<const std::byte> bytes) const = 0;

  /// True if the holder of `key` signed these bytes, whether or not the key is on the allow-list.
  virtual bool verify_key(const PeerKey& key, std::span<const std::byte> bytes,
                          const Signature& signature) const = 0;

  /// The id of the peer that holds this key.
  virtual PeerId id_of(const PeerKey& key) const = 0;
};

}  // namespace gv
