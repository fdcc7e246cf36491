// What keys of a swarm say about other keys: which belong to the swarm, and which no longer do.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "consensus/message/signer.hpp"

namespace gv {

/// 1 to 64 bytes of [A-Za-z0-9._-].
bool is_peer_name(std::string_view text);

/// One key's statement that another belongs to a swarm.
struct Certificate {
  PeerKey swarm{};   ///< The swarm's public key, which is also its name.
  PeerKey issuer{};  ///< The signing key: the swarm's key, or a peer that may invite.
  PeerKey key{};     ///< The certified peer's key.
  std::string name;
  std::uint32_t number = 0;  ///< The shard of the data that the peer trains on, modulo the number
                             ///< of shards.
  bool may_invite = false;
  std::uint64_t expires_s = 0;  ///< Expiry in seconds since 1970.
  Signature signature{};

  std::string problem() const;
  friend bool operator==(const Certificate&, const Certificate&) = default;
};

/// The longest chain of certificates from the swarm's key to a peer. A peer at its end cannot
/// invite.
inline constexpr std::size_t chain_max = 4;

/// One key's statement that another no longer belongs to a swarm, whatever certificates it has. It
/// carries the proof of its issuer's right, so any peer can check it by the swarm's key alone.
struct Revocation {
  PeerKey swarm{};
  PeerKey issuer{};
  PeerKey key{};
  std::uint64_t signed_s = 0;  ///< When it was signed, in seconds since 1970.
  /// The certificates from the swarm's key to the issuer; none if that is the swarm's key itself.
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
  Digest held{};  ///< Digest of all that the sender holds, so that the receiver sees differences.
  std::vector<Certificate> certificates;
  std::vector<Revocation> revocations;

  std::string problem() const;
};

/// Splits what is too long for one message into several messages; at least one.
std::vector<Certificates> in_parts(const Certificates& whole);

/// The bytes that an issuer signs.
std::vector<std::byte> signed_bytes(Certificate certificate);
std::vector<std::byte> signed_bytes(Revocation revocation);

}  // namespace gv
