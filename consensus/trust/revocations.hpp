// The revocations of a swarm: decides which are proved, which count, and which are kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "consensus/message/certificate.hpp"

namespace gv {

/// How long a certificate is valid. Peers renew the certificates of live peers after half of this
/// time.
inline constexpr std::uint64_t certificate_lifetime_s = 30 * 24 * 3600;

/// The difference between clocks that is tolerated before a certificate is refused for lasting too
/// long.
inline constexpr std::uint64_t clock_slack_s = 24 * 3600;

/// How long a revocation is kept: until all older certificates of its key have expired.
inline constexpr std::uint64_t revocation_lifetime_s = certificate_lifetime_s + 2 * clock_slack_s;

/// The largest number of keys whose revocations a peer keeps.
inline constexpr std::size_t revoked_max = 1024;

/// The largest number of revocations of one key that a peer keeps. They are from different issuers,
/// and at most two of them have chains that begin with the same peer.
inline constexpr std::size_t issuers_max = 4;

/// True if the revocation shows that its issuer may revoke. Its chain must lead from the swarm's
/// key to the issuer without containing the revoked key. The issuer's own certificate must not have
/// expired before the revocation was signed. Does not check signatures.
bool has_sound_chain(const Revocation& revocation);

/// Holds proved revocations, and decides which of them count.
///
/// A revocation contests each revocation whose chain contains the key that it revokes. There is one
/// exception, because a key has no say in its own revocation: if A revokes a key in the chain of B,
/// then B does not contest A. A revocation does not count if it is contested by one that counts. If
/// revocations contest each other in a circle, and nothing else settles the matter, all of them
/// count and defeat no others. So only the set of revocations decides which of them count, not the
/// order in which they arrived.
class Revocations {
 public:
  /// True if add() would keep the revocation: it is not held already, and no better revocations
  /// fill the places for its key.
  bool has_place_for(const Revocation& revocation) const;
  /// Adds a checked revocation for which there is a place. Call judge() afterwards, before asking
  /// which revocations count.
  void add(const Revocation& revocation);

  /// Drops the revocations of a key, to make room.
  void drop(const PeerKey& key) { held_.erase(key); }
  /// Drops expired revocations. Returns the keys that have none left.
  std::vector<PeerKey> drop_expired(std::uint64_t wall_s);

  /// Works out which revocations count, in time proportional to their number.
  void judge();

  bool is_revoked(const PeerKey& key) const { return counting_.contains(key); }
  /// The revocations of the key that count; null if none does.
  const std::vector<Revocation>* counting(const PeerKey& key) const;
  /// All keys with revocations that count, and those revocations.
  const std::map<PeerKey, std::vector<Revocation>>& counting() const { return counting_; }
  /// True if this revocation is held and counts.
  bool is_counting(const Revocation& revocation) const;
  /// All held revocations by key, whether they count or not.
  const std::map<PeerKey, std::vector<Revocation>>& held() const { return held_; }
  std::size_t size() const;

 private:
  /// The revocations of its key that are held once this one has been offered.
  std::vector<Revocation> with(const Revocation& revocation) const;

  std::map<PeerKey, std::vector<Revocation>> held_;
  std::map<PeerKey, std::vector<Revocation>> counting_;
};

}  // namespace gv
