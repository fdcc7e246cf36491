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
    /// The shortest duration of a suspicion in a swarm of up to 10 peers. In a swarm of n > 10
    /// peers it is log10(n) times as long.
    Duration suspicion_min = std::chrono::milliseconds(3500);
    /// The longest duration of a suspicion, which applies without confirmations, as a multiple of
    /// the shortest (Lifeguard, section 4).
    double suspicion_max_factor = 6;
    Duration push_pull_period = std::chrono::seconds(10);
    Duration forget_dead_after = std::chrono::minutes(10);
    std::size_t members_max = 4096;
  };

  /// `self` must have its id, name and address set. `authorized` is the allow-list, including self.
  /// `signer` holds the key of `self` and must outlive this object.
  Membership(Member self, std::vector<PeerId> authorized, Options options, const Signer& signer,
             Rng rng);
  Membership(const Membership& other);
  Membership(Membership&& other) noexcept;
  Membership& operator=(const Membership& other);
  Membership& operator=(Membership&& other) noexcept;
  ~Membership();
  bool operator==(const Membership& other) const;
  void add_to(StateHash& hash) const;

  /// Call when a control link to `peer` has been established by either side. Exchanges whole tables
  /// with the peer. If we know the peer already, or the table is too long for one message, sends
  /// only our own entry.
  void contact(Time now, PeerId peer, Effects& out);

  /// Handles Ping, PingRequest, Ack, Nack and PushPull.
  void receive(Time now, PeerId from, const Message& message, Effects& out);

  void tick(Time now, Effects& out);
  Time deadline() const;

  /// Sends our own entry to every live member at once. Used for changes of phase, which should not
  /// wait for the next probe. Costs one message for each member.
  void announce(Effects& out);
  /// Sends only our progress to every live member. If `asks` is true, they answer with their
  /// progress.
  void report(bool asks, Effects& out);

  /// Announces that we leave, so that others mark us as left and not as dead. Messages that arrive
  /// later are ignored.
  void leave(Time now, Effects& out);

  /// Replaces the allow-list. Members that are no longer on it are dropped at once.
  void authorize(Time now, std::vector<PeerId> authorized, Effects& out);

  /// Sets the progress that we report from now on.
  void set_progress(const Progress& progress);

  const Member& self() const;

  /// The alive and the suspected members, including us.
  const View& view() const;

  /// All known members, sorted by id, including us and those that are dead or have left.
  std::vector<Member> members() const;

  /// The other members in the form in which we pass them on, with their own statements and
  /// signatures.
  std::vector<Member> statements() const;

  /// The member, or null if unknown. Valid until the next call that is not const.
  const Member* find(PeerId peer) const;

  /// Calls `look` with every other known member, including those that are dead or have left.
  void for_each_other(const std::function<void(const Member&)>& look) const;

  /// Like for_each_other, but also gives the member's progress as far as it may decide about our
  /// training. Other peers can pass on what a member has stated in an earlier run. So until we have
  /// heard from the member itself, or have known it for 30 s and believe it to be alive, its
  /// progress is that of a peer that joins and has no work yet.
  void for_each_report(const std::function<void(const Member&, const Progress&)>& look) const;

  /// Lifeguard's local health: 0 is healthy; each point slows our own probes.
  int local_health() const;

  /// True if the allow-list has a peer besides us and `other`, whether or not we have met it.
  bool admits_third(PeerId other) const;

  /// Number of entries in all tables: at most 13 for each other authorised peer, plus 65.
  std::size_t held() const;

 private:
  struct State;
  Boxed<State> state_;
};

}  // namespace gv
