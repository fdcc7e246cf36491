// Peers that agree on generations over a faulty random network: messages are late, repeated or
// lost, and peers die, stop or are cut off.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "base/rng.hpp"
#include "consensus/generation/agreement.hpp"
#include "peer/modes/replica_planner.hpp"
#include "tests/signers.hpp"

namespace gv {

/// The faults of a random network until it heals.
struct Weather {
  std::size_t peers = 4;
  Duration latency = std::chrono::milliseconds(1);
  Duration jitter = std::chrono::milliseconds(0);
  double loss = 0;
  double duplicate = 0;
  double late = 0;  ///< Probability that a message arrives up to three seconds late.
  Duration faults_every = std::chrono::seconds(2);
  Duration heals_at = std::chrono::seconds(20);
};

inline Weather draw_weather(Rng& rng) {
  Weather weather;
  weather.peers = 1 + rng.below(7);
  weather.latency = from_seconds(rng.chance(0.1) ? 0.9 * rng.uniform() : 0.02 * rng.uniform());
  weather.jitter = from_seconds(0.05 * rng.uniform());
  weather.loss = rng.chance(0.5) ? 0.3 * rng.uniform() : 0;
  weather.duplicate = rng.chance(0.5) ? 0.5 * rng.uniform() : 0;
  weather.late = rng.chance(0.3) ? 0.2 * rng.uniform() : 0;
  weather.faults_every = from_seconds(0.3 + 4 * rng.uniform());
  return weather;
}

/// Peers that agree on generations and complete collectives by telling each other that they are
/// ready, like an all-reduce without vectors.
class Agreeing {
 public:
  Agreeing(const Weather& weather, std::uint64_t seed)
      : weather_(weather),
        draws_(Rng(seed).fork("network")),
        faults_(Rng(seed).fork("faults")),
        peers_(weather.peers) {
    for (std::size_t i = 0; i < peers_.size(); ++i) start(i);
  }

  void run_until(Time end) {
    while (!events_.empty() && events_.top().at <= end && broken.empty()) {
      Event event = events_.top();
      events_.pop();
      now_ = event.at;
      Peer& peer = peers_[event.to];
      if (event.incarnation != peer.incarnation || !peer.agreement) continue;
      if (peer.stopped) {
        peer.backlog.push_back(std::move(event));
        continue;
      }
      handle(event);
    }
    now_ = end;
  }

  /// Runs with every kind of fault until the network heals, then starts the recovery without
  /// faults.
  void live_through_it() {
    while (now_ < Time(weather_.heals_at) && broken.empty()) {
      run_until(now_ + from_seconds(2 * faults_.uniform() * seconds(weather_.faults_every)));
      apply_to();
    }
    healed_ = true;
    sides_.clear();
    for (std::size_t i = 0; i < peers_.size(); ++i) {
      wake(i);
      if (!peers_[i].agreement && !peers_[i].gone) start(i);
    }
  }

  /// True if all running peers are in one generation that contains no other peer.
  bool is_one() const {
    const Generation* first = nullptr;
    std::size_t there = 0;
    for (const Peer& peer : peers_) {
      if (!peer.agreement) continue;
      ++there;
      const Generation* generation = peer.agreement->generation();
      if (generation == nullptr || peer.fetching) return false;
      if (first == nullptr) first = generation;
      if (generation->id != first->id) return false;
    }
    return first == nullptr || first->order.size() == there;
  }

  std::uint64_t operations() const { return operations_; }
  std::uint64_t generations() const { return known_.size(); }
  Time now() const { return now_; }

  /// Makes peer `i` believe that the peers in `to` do not exist.
  void blind(std::size_t i, std::set<std::size_t> to) {
    peers_[i].blind = std::move(to);
    tell_candidates(i);
  }

  std::string broken;  ///< The first rule that was broken; empty: none.

 private:
  const ReplicaPlanner planner_{{.elements = 1000}};
  struct Piece {
    std::uint64_t generation = 0;
    std::uint64_t operation = 0;
  };
  struct State {
    std::uint64_t generation = 0;
    ModelVersion version;
  };
  struct Tick {};
  struct Look {};
  using What = std::variant<Message, Piece, State, Tick, Look>;
  struct Event {
    Time at{};
    std::uint64_t number = 0;
    std::size_t from = 0;
    std::size_t to = 0;
    std::uint32_t incarnation = 0;
    What what;
    bool operator<(const Event& other) const {
      return std::pair(other.at, other.number) < std::pair(at, number);
    }
  };
  struct Peer {
    std::unique_ptr<Agreement> agreement;
    std::uint32_t incarnation = 0;
    bool stopped = false;
    bool gone = false;  ///< True if the peer never comes back.
    std::vector<Event> backlog;
    std::set<std::size_t> blind;
    std::uint64_t generation = 0;  ///< Key of the generation that the peer works in.
    bool fetching = false;
    /// For each collective of each generation, the peers that are ready.
    std::map<std::pair<std::uint64_t, std::uint64_t>, std::set<std::size_t>> ready;
    Time armed = never;
    Time progress{};
    std::optional<Time> newcomers;
    std::set<std::uint64_t> left;         ///< Generations that the peer has left.
    GenerationId answered;                ///< Newest ballot answered in this incarnation.
    std::optional<ModelVersion> version;  ///< The version in the peer's newest answer.
  };

  static PeerId id_of(std::size_t i) { return PeerId{i + 1}; }
  static std::size_t index_of(PeerId id) { return static_cast<std::size_t>(id) - 1; }

  void fail(std::size_t i, const std::string& what) {
    if (!broken.empty()) return;
    broken = "at " + std::to_string(seconds(now_.time_since_epoch())) + " s peer " +
             std::to_string(i) + " " + what;
  }

  void put(Duration after, std::size_t from, std::size_t to, What what) {
    events_.push({now_ + after, ++number_, from, to, peers_[to].incarnation, std::move(what)});
  }

  void send(std::size_t from, std::size_t to, const What& what) {
    if (!peers_[to].agreement || is_cut(from, to)) return;
    int copies = 1;
    if (!healed_ && draws_.chance(weather_.loss)) copies = 0;
    if (!healed_ && draws_.chance(weather_.duplicate)) ++copies;
    for (; copies > 0; --copies) {
      Duration after = weather_.latency + from_seconds(draws_.uniform() * seconds(weather_.jitter));
      if (!healed_ && draws_.chance(weather_.late)) after += from_seconds(3 * draws_.uniform());
      put(after, from, to, what);
    }
  }

  bool is_cut(std::size_t from, std::size_t to) const {
    return !sides_.empty() && sides_[from] != sides_[to] && (!one_way_ || sides_[from]);
  }

  void start(std::size_t i) {
    Peer& peer = peers_[i];
    const std::uint32_t incarnation = peer.incarnation + 1;
    const std::set<std::size_t> blind = peer.blind;
    peer = Peer{.incarnation = incarnation, .blind = blind, .progress = now_};
    peer.agreement = std::make_unique<Agreement>(id_of(i), Rng(i).fork(incarnation).next(),
                                                 Agreement::Options{}, signer_of(id_of(i)));
    peer.agreement->set_version({.lineage = 1});
    peer.agreement->set_links(holdings(i, incarnation));
    Effects out;
    peer.agreement->set_candidates(now_, candidates(i));
    peer.agreement->disturb(now_, {}, out);
    carry_out(i, out);
    tell_all();
    put(std::chrono::milliseconds(100), i, i, Look{});
  }

  /// A peer's reports on its links: some have figures, some are missing, some are impossible.
  std::vector<LinkReport> holdings(std::size_t i, std::uint32_t incarnation) const {
    using Limits = std::numeric_limits<float>;
    constexpr std::array lies = {0.0F,
                                 -1.0F,
                                 Limits::quiet_NaN(),
                                 Limits::infinity(),
                                 -Limits::infinity(),
                                 Limits::max(),
                                 Limits::min(),
                                 1e3F,
                                 1e9F};
    Rng rng = Rng(i).fork(incarnation).fork("claims");
    std::vector<LinkReport> reports;
    if (rng.chance(0.2)) return reports;
    const bool honest = rng.chance(0.5);
    for (std::size_t to = 0; to < peers_.size() + 2; ++to) {
      const auto value = [&](double least) {
        return honest ? static_cast<float>(least * std::pow(10, 2 * rng.uniform()))
                      : lies.at(rng.below(lies.size()));
      };
      reports.push_back(
          {.to = id_of(to), .latency_s = value(1e-4), .bytes_per_second = value(1e7)});
    }
    return reports;
  }

  void kill(std::size_t i) {
    peers_[i].agreement.reset();
    peers_[i].backlog.clear();
    tell_all();
    for (std::size_t other = 0; other < peers_.size(); ++other) {
      const Peer& peer = peers_[other];
      if (!peer.agreement || peer.stopped) continue;
      const Generation* generation = peer.agreement->generation();
      if (generation != nullptr && generation->contains(id_of(i))) disturb(other, {id_of(i)});
    }
  }

  void wake(std::size_t i) {
    Peer& peer = peers_[i];
    if (!peer.stopped) return;
    peer.stopped = false;
    peer.armed = never;
    for (const Event& event : std::exchange(peer.backlog, {}))
      put(std::chrono::milliseconds(0), event.from, i, event.what);
    arm(i);
  }

  void apply_to() {
    const std::size_t i = faults_.below(peers_.size());
    Peer& peer = peers_[i];
    switch (faults_.below(6)) {
      case 0:
      case 1:
        if (peer.agreement) {
          kill(i);
          peer.gone = faults_.chance(0.2) && i > 0;
        } else if (!peer.gone) {
          start(i);
        }
        break;
      case 2:
        peer.stopped ? wake(i) : static_cast<void>(peer.stopped = true);
        break;
      case 3:
        sides_.assign(peers_.size(), false);
        for (std::size_t k = 0; k < peers_.size(); ++k) sides_[k] = faults_.chance(0.5);
        one_way_ = faults_.chance(0.3);
        break;
      case 4:
        sides_.clear();
        tell_all();
        break;
      default:
        if (peer.agreement && !peer.stopped) disturb(i, {});
        break;
    }
  }

  std::vector<PeerId> candidates(std::size_t i) const {
    std::vector<PeerId> there;
    for (std::size_t other = 0; other < peers_.size(); ++other) {
      if (other != i && (!peers_[other].agreement || peers_[i].blind.contains(other))) continue;
      there.push_back(id_of(other));
    }
    return there;
  }
  void tell_candidates(std::size_t i) {
    if (peers_[i].agreement) peers_[i].agreement->set_candidates(now_, candidates(i));
    arm(i);
  }
  void tell_all() {
    for (std::size_t i = 0; i < peers_.size(); ++i) tell_candidates(i);
  }

  void disturb(std::size_t i, const std::vector<PeerId>& blamed) {
    Effects out;
    peers_[i].agreement->disturb(now_, blamed, out);
    carry_out(i, out);
  }

  void handle(Event& event) {
    const std::size_t i = event.to;
    Peer& peer = peers_[i];
    Effects out;
    if (const auto* message = std::get_if<Message>(&event.what)) {
      if (std::holds_alternative<StatusRequest>(*message))
        out.send(id_of(event.from), StatusReply{});
      peer.agreement->receive(now_, id_of(event.from), *message, planner_, out);
    } else if (const auto* piece = std::get_if<Piece>(&event.what)) {
      const std::uint64_t next = key_of(peer.agreement->promised());
      if (piece->generation == next)
        peer.ready[{piece->generation, piece->operation}].insert(event.from);
    } else if (const auto* state = std::get_if<State>(&event.what)) {
      if (peer.fetching && state->generation == peer.generation) {
        peer.agreement->set_version(state->version);
        peer.fetching = false;
        begin_operation(i);
      }
    } else if (std::holds_alternative<Look>(event.what)) {
      put(std::chrono::milliseconds(100), i, i, Look{});
      look(i, out);
    } else {
      if (event.at != peer.armed) return;
      peer.armed = never;
      peer.agreement->tick(now_, planner_, out);
      if (peer.agreement->deadline() <= now_) fail(i, "wants another tick at once");
    }
    carry_out(i, out);
  }

  void carry_out(std::size_t i, const Effects& out) {
    Peer& peer = peers_[i];
    for (const Fact& fact : out.facts) {
      if (std::holds_alternative<UnsoundMessage>(fact)) fail(i, "calls a sound message unsound");
    }
    for (const Outgoing& outgoing : out.messages) {
      if (const auto* confirm = std::get_if<Promise>(&outgoing.message)) {
        if (confirm->ballot < peer.answered) fail(i, "answers an older ballot");
        if (confirm->ballot == peer.answered && peer.version &&
            *peer.version != confirm->answer.version) {
          fail(i, "has moved on after it answered");
        }
        peer.answered = confirm->ballot;
        peer.version = confirm->answer.version;
      }
      send(i, index_of(outgoing.to), outgoing.message);
    }
    follow(i);
    arm(i);
  }

  void arm(std::size_t i) {
    Peer& peer = peers_[i];
    if (!peer.agreement) return;
    const Time at = std::max(now_, peer.agreement->deadline());
    if (at >= peer.armed) return;
    peer.armed = at;
    put(at - now_, i, i, Tick{});
  }

  /// Reacts to a new state of the agreement as the all-reduce does.
  void follow(std::size_t i) {
    Peer& peer = peers_[i];
    const Generation* generation = peer.agreement->generation();
    const std::uint64_t key = generation != nullptr ? generation->key() : 0;
    if (generation != nullptr && generation->id < peer.answered)
      fail(i, "is in a generation that is over");
    if (key != peer.generation) {
      if (peer.generation != 0) peer.left.insert(peer.generation);
      peer.generation = key;
      peer.fetching = false;
      peer.newcomers.reset();
      peer.progress = now_;
      if (key != 0) enter(i, *generation);
    }
    work(i);
  }

  void enter(std::size_t i, const Generation& generation) {
    Peer& peer = peers_[i];
    if (peer.left.contains(generation.key())) fail(i, "begins a generation again");
    const auto [known, fresh] = known_.try_emplace(generation.key(), generation);
    const Generation& agreed = known->second;
    if (agreed.id != generation.id || agreed.order != generation.order ||
        agreed.sources != generation.sources || agreed.shares != generation.shares ||
        agreed.version != generation.version || agreed.algorithm != generation.algorithm ||
        agreed.slowest_from != generation.slowest_from || agreed.slowest != generation.slowest) {
      fail(i, "has another generation of the same name");
    }
    const auto place = std::ranges::find(generation.order, id_of(i));
    if (place == generation.order.end()) return fail(i, "is in a generation without it");
    const PeerId source =
        generation.sources[static_cast<std::size_t>(place - generation.order.begin())];
    const ModelVersion& mine = peer.agreement->version();
    if (std::pair(mine.samples, mine.step) >
        std::pair(generation.version.samples, generation.version.step)) {
      fail(i, "loses what it had finished");
    }
    if ((source == id_of(i)) != (mine == generation.version))
      fail(i, "is told to go on from another");
    peer.fetching = source != id_of(i);
    std::erase_if(peer.ready,
                  [&](const auto& entry) { return entry.first.first != peer.generation; });
    if (!peer.fetching) begin_operation(i);
  }

  void begin_operation(std::size_t i) {
    const Peer& peer = peers_[i];
    const Generation& generation = *peer.agreement->generation();
    put(from_seconds(0.02 + 0.1 * draws_.uniform()), i, i,
        Piece{peer.generation, peer.agreement->version().step});
    for (std::size_t k = 0; k < generation.order.size(); ++k) {
      if (generation.sources[k] == id_of(i) && generation.order[k] != id_of(i) &&
          peer.agreement->version() == generation.version) {
        send(i, index_of(generation.order[k]), State{peer.generation, generation.version});
      }
    }
  }

  /// Peer `i` tells the others when it is ready, and finishes a collective once all are ready.
  void work(std::size_t i) {
    Peer& peer = peers_[i];
    const Generation* generation = peer.agreement->generation();
    if (generation == nullptr || peer.fetching) return;
    ModelVersion version = peer.agreement->version();
    const std::set<std::size_t>& ready = peer.ready[{peer.generation, version.step}];
    if (ready.contains(i) && told_.insert({peer.generation, version.step, i}).second) {
      for (const PeerId other : generation->order) {
        if (other != id_of(i)) send(i, index_of(other), Piece{peer.generation, version.step});
      }
    }
    const bool all = std::ranges::all_of(
        generation->order, [&](PeerId other) { return ready.contains(index_of(other)); });
    if (!all) return;
    peer.ready.erase({peer.generation, version.step});
    version.lineage = hash_combine(hash_combine(version.lineage, peer.generation), version.step);
    ++version.step;
    version.samples += generation->order.size();
    const auto [first, fresh] = results_.try_emplace({peer.generation, version.step}, version);
    if (first->second != version) fail(i, "finishes an operation with another result");
    peer.agreement->set_version(version);
    peer.progress = now_;
    ++operations_;
    begin_operation(i);
  }

  /// Looks for peers that are missing from the generation, and for a generation that makes no
  /// progress.
  void look(std::size_t i, Effects& out) {
    Peer& peer = peers_[i];
    const Generation* generation = peer.agreement->generation();
    if (generation == nullptr) return;
    if (now_ - peer.progress > std::chrono::seconds(2) + 4 * weather_.latency) {
      std::vector<PeerId> silent;
      for (const PeerId other : generation->order) {
        const std::uint64_t operation = peer.agreement->version().step;
        if (!peer.ready[{peer.generation, operation}].contains(index_of(other)) &&
            other != id_of(i) && silent.empty()) {
          silent = {other};
        }
      }
      peer.agreement->disturb(now_, silent, out);
      return;
    }
    bool newcomers = false;
    for (const PeerId other : candidates(i)) {
      if (generation->contains(other)) continue;
      newcomers = newcomers || !peer.agreement->is_blamed(other);
      if (draws_.chance(0.1)) out.send(other, StatusRequest{generation->id});
    }
    if (!newcomers || *std::ranges::min_element(generation->order) != id_of(i)) {
      peer.newcomers.reset();
    } else if (!peer.newcomers) {
      peer.newcomers = now_;
    } else if (now_ - *peer.newcomers >= std::chrono::milliseconds(300)) {
      peer.agreement->disturb(now_, {}, out);
    }
  }

  Weather weather_;
  Rng draws_;
  Rng faults_;
  Time now_{};
  bool healed_ = false;
  bool one_way_ = false;
  std::vector<bool> sides_;  ///< The side of each peer in a partition. Empty: no partition.
  std::vector<Peer> peers_;
  std::priority_queue<Event> events_;
  std::uint64_t number_ = 0;
  std::uint64_t operations_ = 0;
  std::map<std::uint64_t, Generation> known_;
  std::set<std::tuple<std::uint64_t, std::uint64_t, std::size_t>> told_;
  std::map<std::pair<std::uint64_t, std::uint64_t>, ModelVersion> results_;
};

}  // namespace gv
