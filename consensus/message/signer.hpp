// The interface by which protocols sign and verify; the owner of the node chooses the cryptography.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/ids.hpp"

namespace gv {

/// The public key of a peer or of a swarm.
using PeerKey = std::array<std::uint8_t, 32>;

/// The signature of one peer's key over some bytes.
using Signature = std::array<std::uint8_t, 64>;

/// A digest: no two inputs with the same digest can be found.
using Digest = std::array<std::uint8_t, 32>;

/// Signs as this peer, and verifies signatures of all peers on the allow-list. Callers sign the
/// canonical_bytes() of a struct in a separate domain, so that a signature for one purpose is
/// useless for another. The owner of the node also owns the signer, which must outlive the node.
class Signer {
 public:
  virtual ~Signer() = default;

  virtual Signature sign(std::span<const std::byte> bytes) const = 0;

  /// True if the peer `signer` is on the allow-list and its key signed these bytes.
  virtual bool verify(PeerId signer, std::span<const std::byte> bytes,
                      const Signature& signature) const = 0;

  virtual Digest digest(std::span<const std::byte> bytes) const = 0;

  /// True if the holder of `key` signed these bytes, whether it is on the allow-list or not.
  virtual bool verify_key(const PeerKey& key, std::span<const std::byte> bytes,
                          const Signature& signature) const = 0;

  /// The id of the peer that holds this key.
  virtual PeerId id_of(const PeerKey& key) const = 0;
};

}  // namespace gv
