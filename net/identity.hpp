// A peer's identity on the network: an Ed25519 key pair, and the list of keys that may join.
#pragma once

#include <array>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/ids.hpp"
#include "base/problems.hpp"
#include "consensus/message/certificate.hpp"

namespace gv {

/// An Ed25519 public key. The peer signs with the secret half. The keys for ZeroMQ CURVE are
/// derived from this pair, so a peer stores only one pair.
using PublicKey = PeerKey;

/// A key pair. The secret half must never be logged or sent.
struct KeyPair {
  PublicKey public_key{};
  std::array<std::uint8_t, 32> secret_key{};  ///< The seed of RFC 8032.
};

/// A Curve25519 key, as ZeroMQ CURVE uses it.
using CurveKey = std::array<std::uint8_t, 32>;

/// A key pair converted for CURVE. The secret half must never be logged or sent.
struct CurveKeyPair {
  CurveKey public_key{};
  CurveKey secret_key{};
};
CurveKeyPair curve_keys(const KeyPair& pair);

/// Converts a public key for CURVE. Returns nullopt for a key that has no secret half, because
/// anyone could use such a key. Two public keys may have the same CURVE key.
std::optional<CurveKey> curve_key(const PublicKey& key);

/// A fresh pair from the system's randomness.
KeyPair generate_key_pair();

/// The key pair derived from this seed.
KeyPair key_pair_of_seed(const std::array<std::uint8_t, 32>& seed);

/// Returns the id of the peer with this key: the first 8 bytes of the key's BLAKE2b hash.
PeerId peer_id(const PublicKey& key);

/// Returns "ed25519:" and 43 characters of unpadded base64.
std::string to_text(const PublicKey& key);
/// Parses a key. Accepts only the text that to_text() returns for it.
std::optional<PublicKey> public_key_from_text(std::string_view text);

/// Creates `file` with mode 0600; refuses if it exists.
Problems save_key_pair(const std::filesystem::path& file, const KeyPair& pair);

/// A key pair, valid only if there are no problems.
struct LoadedKeyPair {
  KeyPair pair;
  Problems problems;
};

/// Loads a key pair from a regular file that we own and whose mode is 0600 or stricter. Refuses any
/// other file.
LoadedKeyPair load_key_pair(const std::filesystem::path& file);

/// True for a "host:port" or "[v6]:port" that can be dialled, with a port from 1 to 65535.
bool is_address(std::string_view text);

/// One line of the allow-list: `name public-key [host:port]`; '#' starts a comment.
struct AuthorizedPeer {
  std::string name;
  PublicKey key{};
  std::string address;  ///< Where to dial the peer; empty if not given.
};

/// The allow-list. It contains all valid lines even if others have problems.
struct LoadedAuthorizedPeers {
  std::vector<AuthorizedPeer> peers;
  Problems problems;  ///< The problems of all bad lines, with line numbers.
};

/// Reads an allow-list of at most 1 MiB. Names and keys must be unique.
LoadedAuthorizedPeers load_authorized_peers(const std::filesystem::path& file);

/// Returns the reasons why the list `next`, read from `place`, must not replace the list of a
/// running peer with the key `own`. For example, a half-written or truncated file looks like a list
/// that excludes all other peers.
Problems problems_of_change(const std::string& place, const std::vector<AuthorizedPeer>& current,
                            const std::vector<AuthorizedPeer>& next, const PublicKey& own);

}  // namespace gv
