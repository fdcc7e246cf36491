// A cluster of Membership endpoints on one virtual clock. Their processes can stop, die and return.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/rng.hpp"
#include "consensus/membership/membership.hpp"
#include "consensus/membership/statement.hpp"
#include "peer/node/facts.hpp"
#include "tests/facts.hpp"
#include "tests/signers.hpp"

namespace gv::members {

/// A point in virtual time, in seconds since the beginning.
constexpr Time at_seconds(double value) { return Time{} + from_seconds(value); }

/// The id of the peer with this index. Index 0 has the smallest id.
constexpr PeerId peer_of(int index) { return PeerId{static_cast<std::uint64_t>(index) + 1}; }

inline std::vector<PeerId> peers_below(int count) {
  std::vector<PeerId> peers;
  for (int i = 0; i < count; ++i) peers.push_back(peer_of(i));
  return peers;
}

/// A member's description of itself in its first incarnation.
inline Member member_of(int index, MemberState state = MemberState::alive,
                        std::uint64_t incarnation = 0) {
  Member member;
  member.id = peer_of(index);
  member.name = "p" + std::to_string(index);
  member.address = "host" + std::to_string(index) + ":1";
  member.incarnation = incarnation;
  member.state = state;
  restate(member, signer_of(member.id));
  return member;
}

/// The longest time that a suspicion can last in a cluster of this size.
inline double suspicion_longest(int peers) {
  const Membership::Options options;
  return seconds(options.suspicion_min) * std::max(1.0, std::log10(peers)) *
         options.suspicion_max_factor;
}

/// The complete content of the effects as text, for comparing runs.
inline std::string describe(const Effects& effects) {
  std::ostringstream out;
  const auto members = [&](const std::vector<Member>& list) {
    for (const Member& member : list) {
      out << ' ' << to_string(member.id) << '/' << member.name << '/' << member.address << '/'
          << member.incarnation << '/' << to_string(member.state) << '/' << member.progress.step;
    }
  };
  for (const Outgoing& outgoing : effects.messages) {
    out << "to " << to_string(outgoing.to) << " #" << outgoing.message.index();
    std::visit(
        [&](const auto& known) {
          if constexpr (requires { known.sequence; }) out << " seq " << known.sequence;
          if constexpr (requires { known.target; }) out << " target " << to_string(known.target);
          if constexpr (requires { known.about; }) out << " about " << to_string(known.about);
          if constexpr (requires { known.reply; }) out << " reply " << known.reply;
          if constexpr (requires { known.progress; }) out << " step " << known.progress.step;
          if constexpr (requires { known.rumors; }) members(known.rumors);
          if constexpr (requires { known.members; }) members(known.members);
        },
        outgoing.message);
    out << '\n';
  }
  for (const Fact& fact : effects.facts) {
    const FactText text = gv::describe(fact);
    out << text.info.name << ' ' << (text.peer ? to_string(*text.peer) : "-") << ' '
        << to_string(text.reason) << ' ' << text.detail;
    for (const auto& [name, value] : text.numbers) out << ' ' << name << '=' << value;
    out << '\n';
  }
  return out.str();
}

/// Endpoints 0 to N-1. Each is a process that can be stopped, killed and restarted.
class Cluster {
 public:
  struct Options {
    int peers = 4;
    std::uint64_t seed = 1;
    Membership::Options membership;
    Duration latency = std::chrono::milliseconds(10);
    /// Uniformly random time added to the latency, which reorders messages.
    Duration jitter = std::chrono::milliseconds(10);
    double loss = 0;
    double duplication = 0;
  };

  /// A fact, and where and when it occurred.
  struct Seen {
    Time at{};
    int by = 0;
    Fact fact;
  };

  std::vector<Seen> seen;
  /// Called after every tick and every received message, before the effects are carried out.
  std::function<void(Membership&, Time, const Effects&)> on_tick;
  std::function<void(Membership&, Time, const Envelope&, const Effects&)> on_receive;
  /// If not null, the effects of every call are appended to it.
  std::string* transcript = nullptr;

  explicit Cluster(Options options)
      : options_(options), rng_(options.seed), allowed_(peers_below(options.peers)) {
    for (int i = 0; i < options_.peers; ++i) {
      nodes_.emplace_back();
      start(i);
    }
  }

  Time now() const { return now_; }
  int size() const { return static_cast<int>(nodes_.size()); }
  Membership& at(int peer) { return *nodes_[index(peer)].membership; }
  bool running(int peer) const { return nodes_[index(peer)].membership != nullptr; }

  /// Every peer contacts `hub`.
  void join(int hub = 0) {
    for (int i = 0; i < size(); ++i) {
      if (i != hub) contact(i, hub);
    }
  }

  void contact(int peer, int other) {
    Effects out;
    at(peer).contact(now_, peer_of(other), out);
    carry_out(peer, out);
  }

  void leave(int peer) {
    Effects out;
    at(peer).leave(now_, out);
    carry_out(peer, out);
  }

  void authorize(int peer, std::vector<PeerId> allowed) {
    Effects out;
    at(peer).authorize(now_, std::move(allowed), out);
    carry_out(peer, out);
  }

  /// Drops messages from `from` to `to`, in this direction only.
  void cut(int from, int to) { cuts_.insert({from, to}); }

  void cut_between_halves() {
    for (int a = 0; a < size() / 2; ++a) {
      for (int b = size() / 2; b < size(); ++b) {
        cut(a, b);
        cut(b, a);
      }
    }
  }

  void heal() { cuts_.clear(); }
  void set_loss(double loss) { options_.loss = loss; }

  /// Stops the process, as SIGSTOP does. Messages that arrive wait.
  void stop(int peer) { nodes_[index(peer)].stopped = true; }

  /// Continues the process. It first receives everything that has waited, then notices how late it
  /// is.
  void cont(int peer) {
    Node& node = nodes_[index(peer)];
    node.stopped = false;
    for (const Envelope& envelope : std::exchange(node.backlog, {})) receive(peer, envelope);
    tick(peer);
  }

  void kill(int peer) {
    Node& node = nodes_[index(peer)];
    if (node.membership) ++node.incarnation;
    node.membership.reset();
    node.backlog.clear();
    node.stopped = false;
  }

  /// Starts a new process with the same key and a new address. It knows no other peer.
  void restart(int peer) {
    kill(peer);
    start(peer);
  }

  void run_until(Time end) {
    while (step(end)) {
    }
    now_ = std::max(now_, end);
  }

  void run_for(double amount) { run_until(now_ + from_seconds(amount)); }

  /// Runs until `holds` is true or `limit` is reached. Returns whether it became true.
  bool run_until(const std::function<bool()>& holds, Time limit) {
    while (!holds()) {
      if (!step(limit)) {
        now_ = std::max(now_, limit);
        return holds();
      }
    }
    return true;
  }

  bool run_until(const std::function<bool()>& holds, double amount) {
    return run_until(holds, now_ + from_seconds(amount));
  }

  /// True if every running peer's view consists of exactly the running peers.
  bool settled() const {
    std::vector<PeerId> expected;
    for (int i = 0; i < size(); ++i) {
      if (running(i)) expected.push_back(peer_of(i));
    }
    return std::ranges::all_of(nodes_, [&](const Node& node) {
      return !node.membership || node.membership->view().peers() == expected;
    });
  }

  /// True if all running peers (except `peer`) believe that `peer` is in this state.
  bool all_hold(int peer, MemberState state) const {
    for (int i = 0; i < size(); ++i) {
      if (i == peer || !running(i)) continue;
      const Member* member = nodes_[index(i)].membership->find(peer_of(peer));
      if (member == nullptr || member->state != state) return false;
    }
    return true;
  }

  /// Number of facts of type F, optionally only those from one endpoint or about one peer.
  template <class F>
  int count(int by = -1, int about = -1) const {
    return static_cast<int>(std::ranges::count_if(seen, [&](const Seen& item) {
      return std::holds_alternative<F>(item.fact) && (by < 0 || item.by == by) &&
             (about < 0 || peer_of_fact(item.fact) == peer_of(about));
    }));
  }

 private:
  struct Node {
    std::unique_ptr<Membership> membership;
    int incarnation = 0;
    bool stopped = false;
    std::vector<Envelope> backlog;
    Time due = never;
  };

  struct Delivery {
    int to = 0;
    int incarnation = 0;  ///< Messages for an earlier incarnation are lost with its links.
    Envelope envelope;
  };

  static std::size_t index(int peer) { return static_cast<std::size_t>(peer); }

  void start(int peer) {
    Node& node = nodes_[index(peer)];
    Member self = member_of(peer);
    self.version = 0;
    self.address = "host" + std::to_string(peer) + ":" + std::to_string(node.incarnation + 1);
    const Rng rng = rng_.fork(static_cast<std::uint64_t>(node.incarnation * 1000 + peer));
    node.membership =
        std::make_unique<Membership>(self, allowed_, options_.membership, signer_of(self.id), rng);
    node.due = node.membership->deadline();
  }

  /// Performs the next delivery or tick. Returns false if it is after `limit`.
  bool step(Time limit) {
    int ticking = -1;
    Time next = never;
    for (int i = 0; i < size(); ++i) {
      const Node& node = nodes_[index(i)];
      if (node.membership && !node.stopped && node.due < next) {
        next = node.due;
        ticking = i;
      }
    }
    const bool delivers = !queue_.empty() && queue_.begin()->first.first < next;
    if (delivers) next = queue_.begin()->first.first;
    if (next == never || next > limit) return false;
    now_ = std::max(now_, next);
    if (!delivers) {
      tick(ticking);
      return true;
    }
    Delivery delivery = std::move(queue_.begin()->second);
    queue_.erase(queue_.begin());
    Node& node = nodes_[index(delivery.to)];
    if (!node.membership || node.incarnation != delivery.incarnation) return true;
    if (node.stopped) {
      node.backlog.push_back(std::move(delivery.envelope));
    } else {
      receive(delivery.to, delivery.envelope);
    }
    return true;
  }

  void receive(int peer, const Envelope& envelope) {
    Effects out;
    at(peer).receive(now_, envelope.from, envelope.message, out);
    if (on_receive) on_receive(at(peer), now_, envelope, out);
    carry_out(peer, out);
  }

  void tick(int peer) {
    Effects out;
    at(peer).tick(now_, out);
    if (at(peer).deadline() <= now_) FAIL("something is still due after a tick");
    if (on_tick) on_tick(at(peer), now_, out);
    carry_out(peer, out);
  }

  void carry_out(int peer, Effects& out) {
    if (transcript != nullptr) *transcript += describe(out);
    for (Fact& fact : out.facts) seen.push_back({now_, peer, std::move(fact)});
    for (const Outgoing& outgoing : out.messages) {
      const int to = static_cast<int>(static_cast<std::uint64_t>(outgoing.to)) - 1;
      if (to < 0 || to >= size() || cuts_.contains({peer, to})) continue;
      const int copies = rng_.chance(options_.duplication) ? 2 : 1;
      for (int copy = 0; copy < copies; ++copy) {
        if (rng_.chance(options_.loss)) continue;
        const Duration delay =
            options_.latency + from_seconds(seconds(options_.jitter) * rng_.uniform());
        queue_[{now_ + delay, ++sent_}] = {
            to, nodes_[index(to)].incarnation, {peer_of(peer), outgoing.message}};
      }
    }
    nodes_[index(peer)].due = at(peer).deadline();
  }

  Options options_;
  Rng rng_;
  Time now_{};
  std::uint64_t sent_ = 0;
  std::vector<PeerId> allowed_;
  std::vector<Node> nodes_;
  std::set<std::pair<int, int>> cuts_;
  std::map<std::pair<Time, std::uint64_t>, Delivery> queue_;
};

}  // namespace gv::members
