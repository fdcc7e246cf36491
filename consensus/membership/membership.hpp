// Membership: SWIM failure detection and rumours, with Lifeguard's rules and periodic push-pull.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "base/boxed.hpp"
#include "base/rng.hpp"
#include "base/time.hpp"
#include "base/view.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

class Signer;
class StateHash;

/// One peer's table of members. Only peers on the allow-list ever enter it.
class Membership {
 public:
  struct Options {
    Duration probe_period = std::chrono::seconds(1);
    Duration probe_timeout = std::chrono::milliseconds(500);
    int indirect_probes = 3;
    /// The shortest suspicion for two peers; grows with log10(n).
    Duration suspicion_min = std::chrono::milliseconds(3500);
    /// The longest suspicion, without confirmations, as a multiple of `suspicion_min` (Lifeguard,
    /// section 4).
    double suspicion_max_factor = 6;
    Duration push_pull_period = std::chrono::seconds(10);
    Duration forget_dead_after = std::chrono::minutes(10);
    std::size_t members_max = 4096;
  };

  /// `self` must have its id, key, name and address. `authorized` is the allow-list, self included.
  /// `signer` has the key of `self` and must outlive this object.
  Membership(Member self, std::vector<PeerId> authorized, Options options, const Signer& signer,
             Rng rng);
  Membership(const Membership& other);
  Membership(Membership&& other) noexcept;
  Membership& operator=(const Membership& other);
  Membership& operator=(Membership&& other) noexcept;
  ~Membership();
  bool operator==(const Membership& other) const;
  void add_to(StateHash& hash) const;

  /// Call when a control link to `peer` exists, whichever side dialled. Exchanges the full state
  /// with the peer, or only introduces us if we know the peer already or the state is too long for
  /// one message.
  void contact(Time now, PeerId peer, Effects& out);

  /// Handles Ping, PingRequest, Ack, Nack and PushPull.
  void receive(Time now, PeerId from, const Message& message, Effects& out);

  void tick(Time now, Effects& out);
  Time deadline() const;

  /// Sends our own entry to every live member at once, because a change of phase should not wait
  /// for the next probe. Costs one message for each member.
  void announce(Effects& out);
  /// Sends every live member our progress alone. Only if `asks`, they answer with theirs.
  void report(bool asks, Effects& out);

  /// Announces that we leave, so that others mark us as left and not as dead. Later messages are
  /// ignored.
  void leave(Time now, Effects& out);

  /// Replaces the allow-list. Members no longer in it are dropped at once.
  void authorize(Time now, std::vector<PeerId> authorized, Effects& out);

  /// Sets the progress that we report from now on.
  void set_progress(const Progress& progress);

  const Member& self() const;

  /// Alive and suspected members, including us.
  const View& view() const;

  /// All known members, including ourselves and those that are dead or have left, sorted by id.
  std::vector<Member> members() const;

  /// The other members as we pass them on: with their own statements and signatures.
  std::vector<Member> statements() const;

  /// The member, or null if unknown. Valid until the next call that is not const.
  const Member* find(PeerId peer) const;

  /// Calls `look` with every other known member, including those that are dead or have left.
  void for_each_other(const std::function<void(const Member&)>& look) const;

  /// Lifeguard's local health: 0 is healthy; each point slows our own probes.
  int local_health() const;

  /// True if the allow-list has a peer other than us and `other`, whether we have met it or not.
  bool admits_third(PeerId other) const;

  /// Number of entries in all tables: at most 9 for each other authorised peer, plus 64.
  std::size_t held() const;

 private:
  struct State;
  Boxed<State> state_;
};

}  // namespace gv
