// Ed25519 signatures and BLAKE2b digests, with libsodium.
#include "net/key_signer.hpp"

#include <sodium.h>

namespace gv {
namespace {

static_assert(crypto_sign_BYTES == std::tuple_size_v<Signature> &&
              crypto_sign_SECRETKEYBYTES == 64 && crypto_sign_SEEDBYTES == 32);

const unsigned char* data_of(std::span<const std::byte> bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}

}  // namespace

KeySigner::KeySigner(const KeyPair& identity, const std::vector<AuthorizedPeer>& authorized)
    : own_(identity.public_key) {
  PublicKey derived{};
  crypto_sign_seed_keypair(derived.data(), secret_.data(), identity.secret_key.data());
  authorize(authorized);
}

KeySigner::~KeySigner() { sodium_memzero(secret_.data(), secret_.size()); }

void KeySigner::authorize(const std::vector<AuthorizedPeer>& authorized) {
  keys_.clear();
  for (const AuthorizedPeer& peer : authorized) keys_[peer_id(peer.key)] = peer.key;
  keys_[peer_id(own_)] = own_;
}

Digest KeySigner::digest(std::span<const std::byte> bytes) const {
  Digest digest{};
  crypto_generichash(digest.data(), digest.size(), data_of(bytes), bytes.size(), nullptr, 0);
  return digest;
}

Signature KeySigner::sign(std::span<const std::byte> bytes) const {
  Signature signature{};
  crypto_sign_detached(signature.data(), nullptr, data_of(bytes), bytes.size(), secret_.data());
  return signature;
}

bool KeySigner::verify(PeerId signer, std::span<const std::byte> bytes,
                       const Signature& signature) const {
  const auto key = keys_.find(signer);
  return key != keys_.end() && verify_key(key->second, bytes, signature);
}

bool KeySigner::verify_key(const PeerKey& key, std::span<const std::byte> bytes,
                           const Signature& signature) const {
  return crypto_sign_verify_detached(signature.data(), data_of(bytes), bytes.size(), key.data()) ==
         0;
}

}  // namespace gv
