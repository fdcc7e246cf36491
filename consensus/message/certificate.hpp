// Statements by a swarm's keys about other keys: which belong to the swarm, and which no longer do.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "consensus/message/signer.hpp"

namespace gv {

/// True for 1 to 64 bytes of [A-Za-z0-9._-].
bool is_peer_name(std::string_view text);

/// A statement, signed by one key, that another key belongs to a swarm.
struct Certificate {
  PeerKey swarm{};   ///< The swarm's public key, which is also its name.
  PeerKey issuer{};  ///< The key that signs: the swarm's key, or that of a peer that may invite.
  PeerKey key{};     ///< The certified peer's key.
  std::string name;
  std::uint32_t number = 0;  ///< Selects the shard of the data that the peer trains on, modulo the
                             ///< number of shards.
  bool may_invite = false;
  std::uint64_t expires_s = 0;  ///< Time of expiry, in seconds since 1970.
  Signature signature{};

  std::string problem() const;
  friend bool operator==(const Certificate&, const Certificate&) = default;
};

/// The longest chain of certificates from the swarm's key to a peer. The last peer of a chain of
/// this length cannot invite others.
inline constexpr std::size_t chain_max = 4;

/// A statement, signed by one key, that another key no longer belongs to a swarm, whatever
/// certificates it has. The statement contains the proof that its issuer may sign it, so any peer
/// can check it with the swarm's key alone.
struct Revocation {
  PeerKey swarm{};
  PeerKey issuer{};
  PeerKey key{};
  std::uint64_t signed_s = 0;  ///< The time of signing, in seconds since 1970.
  /// The certificates from the swarm's key to the issuer. Empty if the issuer is the swarm's key
  /// itself.
  std::vector<Certificate> chain;
  Signature signature{};

  std::string problem() const;
  friend bool operator==(const Revocation&, const Revocation&) = default;
};

/// The most certificates, and the most revocations, in one message.
inline constexpr std::size_t certificates_in_message_max = 100;
inline constexpr std::size_t revocations_in_message_max = 24;

/// Certificates and revocations that the sender passes on.
struct Certificates {
  Digest held{};  ///< A digest of all certificates and revocations that the sender holds, by which
                  ///< the receiver notices differences.
  std::vector<Certificate> certificates;
  std::vector<Revocation> revocations;

  std::string problem() const;
};

/// Splits `whole` into messages within the limits on certificates and revocations. Returns at least
/// one message.
std::vector<Certificates> in_parts(const Certificates& whole);

/// The bytes that an issuer signs for a certificate or a revocation.
std::vector<std::byte> signed_bytes(Certificate certificate);
std::vector<std::byte> signed_bytes(Revocation revocation);

}  // namespace gv
