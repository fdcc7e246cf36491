// Who is alive: SWIM failure detection and rumours, with Lifeguard's rules and periodic push-pull.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/rng.hpp"
#include "base/time.hpp"
#include "base/view.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// One peer's table of members. Only peers named in the allow-list ever enter it.
class Membership {
 public:
  struct Options {
    Duration probe_period = std::chrono::seconds(1);
    Duration probe_timeout = std::chrono::milliseconds(500);
    int indirect_probes = 3;
    Duration suspicion_min =
        std::chrono::milliseconds(3500);  ///< For two peers; grows with log10(n).
    double suspicion_max_factor = 6;      ///< Without confirmations (Lifeguard, section 4).
    Duration push_pull_period = std::chrono::seconds(10);
    Duration forget_dead_after = std::chrono::minutes(10);
    std::size_t members_max = 4096;
  };

  /// `self` must have its id, key, name and address. `authorized` is the allow-list, self included.
  Membership(Member self, std::vector<PeerId> authorized, Options options, Rng rng);
  ~Membership();

  /// A control link to `peer` exists (we dialled it or it dialled us): exchange full state with it,
  /// or only say who we are if we know it already or the state is too long for one message.
  void contact(Time now, PeerId peer, Effects& out);

  /// Handles Ping, PingRequest, Ack, Nack and PushPull.
  void receive(Time now, PeerId from, const Message& message, Effects& out);

  void tick(Time now, Effects& out);
  Time deadline() const;

  /// Tells every live member at once what we say of ourselves: for a change of phase, which should
  /// not wait for the next probe. One message a member.
  void announce(Effects& out);

  /// Announces that we leave, so that we are marked left and not dead. Nothing is heard afterwards.
  void leave(Time now, Effects& out);

  /// A changed allow-list: members no longer in it are dropped at once.
  void authorize(Time now, std::vector<PeerId> authorized, Effects& out);

  /// What we say of ourselves from now on.
  void set_progress(const Progress& progress);

  const Member& self() const;

  /// Alive and suspected members, self included.
  const View& view() const;

  /// Everyone known, dead and left ones included, sorted by id, self included.
  std::vector<Member> members() const;

  /// Null when unknown; valid until the next call that is not const.
  const Member* find(PeerId peer) const;

  /// Lifeguard's local health: 0 is healthy, each point slows our own probes.
  int local_health() const;

  /// Entries of all tables together: at most 9 for each authorised peer but ourselves, and 64.
  std::size_t held() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace gv
