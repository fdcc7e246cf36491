// A single member that receives messages from other peers, which the test plays.
#pragma once

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>
#include <vector>

#include "consensus/membership/membership.hpp"
#include "tests/consensus/member_cluster.hpp"

namespace gv::members {

/// Options that make probes and push-pulls so rare that only received messages matter.
inline Membership::Options quiet() {
  Membership::Options options;
  options.probe_period = std::chrono::hours(1);
  options.probe_timeout = std::chrono::hours(1);
  options.push_pull_period = std::chrono::hours(1);
  options.forget_dead_after = std::chrono::hours(1);
  return options;
}

/// Peer 0, which knows peers 1 to N-1. The test plays the other peers.
struct Lone {
  explicit Lone(int peers, Membership::Options options = quiet())
      : membership(member_of(0), peers_below(peers), options, signer_of(peer_of(0)), Rng(1)) {
    std::vector<Member> others;
    for (int i = 1; i < peers; ++i) others.push_back(member_of(i));
    receive(1, PushPull{.reply = false, .members = others});
    membership.tick(now, out);
    out = {};
  }

  void receive(int from, const Message& message) {
    membership.receive(now, peer_of(from), message, out);
  }

  void hear(int from, const Member& rumor) {
    receive(from, Ping{.sequence = 1, .progress = {}, .rumors = {rumor}});
  }

  MemberState state(int peer) const { return membership.find(peer_of(peer))->state; }

  /// Ticks the member at its deadlines for `amount` seconds. If `answer` is true, all its probes
  /// are answered, otherwise none.
  void live_for(double amount, bool answer) {
    const Time end = now + from_seconds(amount);
    while (membership.deadline() <= end) {
      now = std::max(now, membership.deadline());
      out = {};
      membership.tick(now, out);
      const std::vector<Outgoing> sent = std::exchange(out.messages, {});
      for (const Outgoing& outgoing : sent) {
        const Ping* ping = std::get_if<Ping>(&outgoing.message);
        if (!answer || ping == nullptr) continue;
        membership.receive(now, outgoing.to, Ack{ping->sequence, outgoing.to, {}, {}}, out);
      }
      highest = std::max(highest, membership.local_health());
      lowest = std::min(lowest, membership.local_health());
    }
    now = end;
  }

  Time now{};
  Membership membership;
  Effects out;
  int highest = 0;  ///< Highest local health so far.
  int lowest = 0;
};

}  // namespace gv::members
