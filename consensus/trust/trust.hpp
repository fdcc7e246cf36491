// Which keys belong to a swarm: certificates and revocations, passed on until all peers have the
// same ones.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/problems.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "base/view.hpp"
#include "consensus/message/certificate.hpp"
#include "consensus/message/effects.hpp"
#include "consensus/trust/revocations.hpp"

namespace gv {

/// The largest number of keys whose certificates a peer keeps.
inline constexpr std::size_t certified_max = 1024;

/// A peer accepts this many certificates of one key at once, and one more in each interval. The
/// same limits hold for revocations by one issuer that replace earlier ones. Otherwise, a hostile
/// peer that may invite could sign new ones without end, and all peers would check them and pass
/// them on. Certificates and revocations that come too soon are not lost: they are offered again
/// whenever peers compare what they hold.
inline constexpr int replacements = 16;
inline constexpr Duration replacing_every = std::chrono::seconds(5);

/// A clock reading that differs by more than this from what we expected is not believed at once.
inline constexpr std::uint64_t clock_jump_s = 3600;
inline constexpr Duration clock_believed_after = std::chrono::hours(1);

/// A peer whose inviter is revoked, or whose certificate has expired, waits this long for another
/// certificate before it leaves. After a partition, the other side may already have certified it.
inline constexpr Duration patience_of_the_uncertified = std::chrono::seconds(20);

/// The certificates and revocations of a swarm that one peer holds.
///
/// A key may invite if the swarm's key, or another key that may invite, has certified that it may.
/// A key belongs to the swarm while it has a certificate, signed by such a key, that has not
/// expired. The right to invite does not expire with the certificate, so the certificates that a
/// dead peer has signed stay valid. But a new certificate is accepted only if its issuer belongs to
/// the swarm now, so an old stolen key is worthless. A revocation contains its issuer's
/// certificates, and Revocations decides which revocations count. A peer that may invite and has
/// believed a revocation for a while signs it too, so the revocation holds even if its first issuer
/// is revoked. A revocation that a revoked key signs later finds no second issuer. It can count
/// only if it revokes the sole issuer of that key's own revocation.
class Trust {
 public:
  struct Options {
    PeerKey swarm{};
    PeerKey self{};
    std::uint64_t wall_s = 0;                   ///< Seconds since 1970 at the beginning of the run.
    Duration period = std::chrono::seconds(2);  ///< Pause between comparisons with another peer.
    /// Signs with the swarm's key, if this peer has it. Must outlive this object.
    const Signer* swarm_signer = nullptr;
  };

  /// `signer` signs as `options.self`, and must outlive this object.
  Trust(Options options, const Signer& signer, Rng rng);

  /// Takes certificates and revocations that this peer has kept on its disk, or that its inviter
  /// has sent. Ignores items that lack a valid signature or are of another swarm.
  void restore(Time now, const std::vector<Certificate>& certificates,
               const std::vector<Revocation>& revocations);

  /// Takes certificates and revocations that another peer passes on. Answers if that peer does not
  /// hold exactly what we hold.
  void receive(Time now, PeerId from, const Certificates& message, const View& live, Effects& out);

  /// Takes certificates shown by a peer that has no link to us, if they prove that a key new to us
  /// belongs to the swarm. Does not answer.
  void show(Time now, const Certificates& shown, const View& live, Effects& out);

  /// Call when a link with the peer has come up. Both peers then compare what they hold.
  void contact(PeerId peer, Effects& out) const;

  /// At intervals, compares what this peer holds with another live peer, renews the certificates of
  /// live peers, and forgets expired certificates.
  void tick(Time now, const View& live, Effects& out);
  Time deadline() const { return next_; }

  /// Certifies the peer with this key. Returns nullopt if we may not invite, if we already hold as
  /// many certificates as we can, or if the key is revoked.
  std::optional<Certificate> certify(Time now, const PeerKey& key, const std::string& name,
                                     bool may_invite, const View& live, Effects& out);

  /// Revokes the certificates of the peer with this name or id. Refused if several peers have the
  /// name, because a hostile peer can take any name. If `with_invited` is true, peers whose places
  /// depend on the revoked certificates are removed too. Otherwise, they get new certificates from
  /// this peer.
  Problems revoke(Time now, std::string_view name, bool with_invited, const View& live,
                  Effects& out);

  /// A name that no other peer has: `wanted`, or `wanted` with a number appended.
  std::string free_name(const std::string& wanted, const PeerKey& key) const;

  /// True if this peer may sign certificates and revocations.
  bool may_invite(Time now) const;

  /// The newest certificates of all keys that belong to the swarm, sorted by key.
  const std::vector<Certificate>& accepted() const { return accepted_; }
  /// The certificate of the key if it belongs to the swarm now; null otherwise.
  const Certificate* accepted(const PeerKey& key) const;
  bool is_revoked(const PeerKey& key) const { return revocations_.is_revoked(key); }
  /// True if this peer is revoked, or has not belonged to the swarm for a while.
  bool must_leave(Time now) const;
  /// Increases with each change of accepted().
  std::uint64_t version() const { return version_; }
  /// Increases with each change of the held certificates.
  std::uint64_t changes() const { return changes_; }

  /// The certificates by which this peer proves that it belongs to the swarm: those of the peers
  /// between the swarm's key and this peer, followed by its own.
  std::vector<Certificate> own_chain() const;

  /// All held certificates, sorted by key.
  std::vector<Certificate> certificates() const;
  /// All held revocations that other peers may need, sorted by key.
  std::vector<Revocation> revocations() const;

  const Options& options() const { return options_; }
  /// Wall-clock time in seconds since 1970.
  std::uint64_t wall(Time now) const;
  /// Uses a new reading of the wall clock from now on, because the clock may be adjusted and the
  /// machine may sleep. A reading far from the expected one may be wrong, so nothing is forgotten
  /// for an hour.
  void set_wall(Time now, std::uint64_t wall_s) {
    const std::uint64_t before = wall(now);
    if (std::max(before, wall_s) - std::min(before, wall_s) > clock_jump_s) jumped_ = now;
    options_.wall_s += wall_s - before;
  }

 private:
  /// The certificates of one key.
  struct Entry {
    /// The certificate that expires last. One that counts is preferred to one that does not.
    std::optional<Certificate> newest;
    /// The certificate that gives the key the right to invite through the shortest chain.
    std::optional<Certificate> right;
    Time rested_at{};  ///< When the key's full budget of replacements is available again.
  };
  enum class Source { own_record, other_peer };
  enum class Outcome { unchanged, taken, forged };

  Outcome take(Time now, const Certificate& certificate, Source source);
  Outcome take(Time now, const Revocation& revocation);
  /// Takes certificates, repeatedly until none is new, because one may depend on a later one. Then
  /// takes revocations. Accepted items are also added to `fresh_`. Returns false if a signature is
  /// forged.
  bool take_all(Time now, const Certificates& message, Source source);
  bool is_signed_by(const PeerKey& issuer, const std::vector<std::byte>& bytes,
                    const Signature& signature) const;
  bool keep(Entry& entry, const Certificate& certificate) const;
  bool is_current(const PeerKey& key, std::uint64_t wall_s) const;
  /// True if `key` may sign for others without the help of the key `without` or of revoked keys. At
  /// most `left` certificates may lead from the swarm's key to `key`.
  bool is_entitled(const PeerKey& key, std::size_t left, const PeerKey& without = {}) const;
  /// True if the certificate's issuer may sign for others.
  bool counts(const Certificate& certificate) const;
  /// Of the certificates that count, the one that expires last; null if none counts.
  const Certificate* latest(const Entry& entry) const;
  /// The number of certificates that lead from the swarm's key to `key`; `left` + 1 if there are
  /// more than `left`.
  std::size_t distance(const PeerKey& key, std::size_t left) const;
  bool is_better_right(const Certificate& a, const Certificate& b) const;
  void make_room(std::uint64_t wall_s);
  /// True if the certificate was signed while its issuer's own certificate was valid, as far as
  /// this peer knows. So a key whose certificate has long expired cannot sign a backdated one.
  bool is_timely(const Certificate& certificate) const;
  bool are_timely(const std::vector<Certificate>& chain) const;
  bool is_proved(const Revocation& revocation) const;
  bool has_room_for(const PeerKey& key) const;
  void drop_strangers();
  bool is_of_use(const Revocation& revocation) const;
  /// Updates everything that depends on the revocations after they have changed.
  void judge(Time now);
  bool is_needed(const PeerKey& key) const;

  Certificate signed_certificate(Time now, Certificate blank) const;
  Certificate take_own(Time now, Certificate blank);
  /// The certificates by which `key` may sign for others without the help of the key `without`.
  std::vector<Certificate> right_of(const PeerKey& key, std::size_t left,
                                    const PeerKey& without) const;
  /// The certificates by which this peer may sign for others without the help of the key `without`.
  /// The last one is this peer's own and is valid now. Empty if there are none.
  std::vector<Certificate> own_right(Time now, const PeerKey& without) const;
  const PeerKey& signing_key() const;
  std::vector<PeerKey> keys_named(std::string_view name) const;
  std::string id_text(const PeerKey& key) const;
  /// Signs revocations of these keys, and takes them as if another peer had sent them. Returns
  /// false if this peer may revoke none of the keys.
  bool sign_revocations(Time now, const std::vector<PeerKey>& keys);
  void renew(Time now, const View& live);
  void sign_again(Time now, const View& live);
  bool is_due(const PeerKey& key, const std::vector<Revocation>& counting, Time now,
              const View& live);
  void forget_expired(Time now);
  void refresh(Time now);
  void spread(std::optional<PeerId> except, const View& live, Effects& out);
  void send_all(Time now, PeerId to, const Digest& theirs, Effects& out);
  std::uint32_t free_number(const PeerKey& key) const;

  Options options_;
  const Signer* signer_;
  Rng rng_;
  PeerId self_;
  std::map<PeerKey, Entry> entries_;
  std::optional<Time> jumped_;  ///< When the clock last jumped.
  Revocations revocations_;
  /// For each issuer, when its full budget of replacements is available again.
  std::map<PeerKey, Time> revokers_rested_at_;
  std::map<PeerKey, Time> revoked_since_;  ///< When this peer began to believe each revocation.
  std::vector<PeerKey> newly_revoked_;     ///< Revoked keys that have not been reported yet.
  std::vector<Certificate> accepted_;
  /// When the next accepted certificate expires, in seconds since 1970.
  std::uint64_t next_expiry_s_ = 0;
  std::uint64_t version_ = 0;
  std::uint64_t changes_ = 0;
  Digest held_{};
  Time next_{};
  Time belonged_{};     ///< When this peer was last known to belong to the swarm.
  Certificates fresh_;  ///< Items that were accepted but not passed on yet.
  /// Digests of what we and a peer held when we last sent that peer everything. While both still
  /// hold the same, sending again helps only if the messages were lost.
  struct SentAll {
    Digest ours{}, theirs{};
    Time at{};
    std::size_t messages = 0;
  };
  std::map<PeerId, SentAll> sent_all_;
};

}  // namespace gv
