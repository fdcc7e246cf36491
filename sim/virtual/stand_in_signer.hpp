// Signatures without cryptography, for virtual peers and tests.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/rng.hpp"
#include "consensus/message/signer.hpp"

namespace gv {

/// A keyed hash replaces the signature. It is cheap to compute, and the same for equal seeds. Only
/// a holder of `secret` can sign for others. Virtual peers use only the Signer interface, so even
/// hostile ones cannot forge signatures.
class StandInSigner final : public Signer {
 public:
  StandInSigner(PeerId self, std::uint64_t secret) : self_(self), secret_(secret) {}

  Signature sign(std::span<const std::byte> bytes) const override { return of(self_, bytes); }
  bool verify(PeerId signer, std::span<const std::byte> bytes,
              const Signature& signature) const override {
    return of(signer, bytes) == signature;
  }
  bool verify_key(const PeerKey& key, std::span<const std::byte> bytes,
                  const Signature& signature) const override {
    return verify(id_of(key), bytes, signature);
  }
  PeerId id_of(const PeerKey& key) const override {
    std::uint64_t id = 0;
    for (std::size_t i = 8; i-- > 0;) id = id << 8 | key[i];
    return PeerId{id};
  }
  Digest digest(std::span<const std::byte> bytes) const override {
    Digest digest{};
    const Signature hash = of(PeerId{}, bytes);
    std::copy_n(hash.begin(), digest.size(), digest.begin());
    return digest;
  }

 private:
  Signature of(PeerId signer, std::span<const std::byte> bytes) const {
    std::uint64_t hash = hash_combine(secret_, static_cast<std::uint64_t>(signer));
    hash = hash_combine(hash, bytes.size());
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      word = word << 8 | std::to_integer<std::uint64_t>(bytes[i]);
      if (i % 8 == 7) hash = hash_combine(hash, word);
    }
    hash = hash_combine(hash, word);
    Signature signature{};
    for (std::size_t i = 0; i < sizeof hash; ++i) {
      signature[i] = static_cast<std::uint8_t>(hash >> (8 * i) & 0xff);
    }
    return signature;
  }

  PeerId self_;
  std::uint64_t secret_;
};

}  // namespace gv
