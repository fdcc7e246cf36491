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
/// derived from this pair, so a peer has only one.
using PublicKey = PeerKey;

/// The secret half must never be logged or sent.
struct KeyPair {
  PublicKey public_key{};
  std::array<std::uint8_t, 32> secret_key{};  ///< The seed of RFC 8032.
};

/// A Curve25519 key, as ZeroMQ CURVE uses it.
using CurveKey = std::array<std::uint8_t, 32>;

/// The same pair for CURVE. The secret half must never be logged or sent.
struct CurveKeyPair {
  CurveKey public_key{};
  CurveKey secret_key{};
};
CurveKeyPair curve_keys(const KeyPair& pair);

/// Converts a public key for CURVE. Returns nullopt for a key without a secret half, which anyone
/// could use. Two keys may have the same CURVE key.
std::optional<CurveKey> curve_key(const PublicKey& key);

/// A fresh pair from the system's randomness.
KeyPair generate_key_pair();

/// The pair with this seed.
KeyPair key_pair_of_seed(const std::array<std::uint8_t, 32>& seed);

/// The peer that holds this key: the first 8 bytes of its BLAKE2b hash.
PeerId peer_id(const PublicKey& key);

/// "ed25519:" and 43 characters of unpadded base64.
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

/// Refuses anything but a regular file of ours with mode 0600 or stricter.
LoadedKeyPair load_key_pair(const std::filesystem::path& file);

/// "host:port" or "[v6]:port" that can be dialled: a port from 1 to 65535.
bool is_address(std::string_view text);

/// One line of the allow-list: `name public-key [host:port]`; '#' starts a comment.
struct AuthorizedPeer {
  std::string name;
  PublicKey key{};
  std::string address;  ///< Where to dial it; empty when not given.
};

/// The allow-list. It contains all valid lines even if others have problems.
struct LoadedAuthorizedPeers {
  std::vector<AuthorizedPeer> peers;
  Problems problems;  ///< Every bad line at once, with its number.
};

/// Reads at most 1 MiB of allow-list; names and keys must be unique.
LoadedAuthorizedPeers load_authorized_peers(const std::filesystem::path& file);

/// Returns why the list `next`, read from `place`, must not replace the list of a running peer with
/// the key `own`. A file that is half written or cut off looks like a list that excludes all other
/// peers.
Problems problems_of_change(const std::string& place, const std::vector<AuthorizedPeer>& current,
                            const std::vector<AuthorizedPeer>& next, const PublicKey& own);

}  // namespace gv
