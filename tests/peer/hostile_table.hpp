// Honest peers that hold ballots together with a hostile peer.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "consensus/generation/agreement.hpp"
#include "peer/modes/replica_planner.hpp"
#include "tests/signers.hpp"

namespace gv {

inline constexpr PeerId hostile{9};
inline constexpr ModelVersion beginning{.lineage = 1};

/// Honest peers 1 to n on a network without delays, and a hostile peer that sends the messages that
/// a test chooses. All of these peers are candidates.
class Table {
 public:
  explicit Table(std::size_t sound, ReplicaPlanner::Options options = {}) : planner_(options) {
    for (std::size_t i = 1; i <= sound; ++i) ids_.push_back(PeerId{i});
    std::vector<PeerId> all = ids_;
    all.push_back(hostile);
    for (const PeerId id : ids_) {
      Agreement peer(id, 1, {}, signer_of(id));
      peer.set_version(beginning);
      peer.set_candidates(now, all);
      peers_.emplace(id, std::move(peer));
    }
    Effects out;
    at(1).disturb(now, {}, out);
    carry_out(PeerId{1}, out);
    run_for(std::chrono::seconds(2));
  }

  Agreement& at(std::uint64_t id) { return peers_.at(PeerId{id}); }

  /// The hostile peer sends this message to all peers, or to one.
  void say(const Message& message, std::optional<PeerId> to = {}) {
    for (const PeerId id : ids_) {
      if (!to || id == *to) waiting_.push_back({hostile, id, message});
    }
    deliver();
  }

  /// Peer `id` ends the generation and blames these peers.
  void disturb(std::uint64_t id, const std::vector<PeerId>& blamed = {}) {
    Effects out;
    at(id).disturb(now, blamed, out);
    carry_out(PeerId{id}, out);
    run_for({});
  }

  void refuse(std::uint64_t id, PeerId refused) {
    Effects out;
    REQUIRE(at(id).refuse(now, refused, out));
    at(id).disturb(now, {refused}, out);
    carry_out(PeerId{id}, out);
    run_for({});
  }

  void run_for(Duration time) {
    deliver();
    for (const Time end = now + time;;) {
      Time next = never;
      for (const auto& [id, peer] : peers_) next = std::min(next, std::max(now, peer.deadline()));
      count(std::min(next, end) - now);
      now = std::min(next, end);
      if (next > end) return;
      for (auto& [id, peer] : peers_) {
        Effects out;
        peer.tick(now, planner_, out);
        carry_out(id, out);
      }
      deliver();
    }
  }

  /// The peers in the generation of peer `id`; empty if it is in no generation.
  std::vector<PeerId> together(std::uint64_t id) {
    const Generation* generation = at(id).generation();
    if (generation == nullptr) return {};
    std::vector<PeerId> peers = generation->order;
    std::ranges::sort(peers);
    return peers;
  }

  /// A generation of all honest peers and the hostile one, as an honest peer would install it.
  Generation sound_generation(const GenerationId& id) const {
    Generation generation{.id = id, .version = beginning};
    generation.order = ids_;
    generation.order.push_back(hostile);
    generation.sources = generation.order;
    generation.shares.assign(generation.order.size(), 1);
    return generation;
  }

  std::size_t told_unsound() const { return unsound_; }

  Time now{};
  double seconds_together = 0;  ///< Seconds that peer 1 has spent in generations.
  /// Returns the hostile peer's answer to a message. If empty, the hostile peer never answers.
  std::function<std::optional<Message>(const Message&)> answer;
  /// The generations that honest peers have begun, with one entry for each peer that began one.
  std::vector<GenerationId> begun;

 private:
  struct Letter {
    PeerId from;
    PeerId to;
    Message message;
  };

  void count(Duration time) {
    if (at(1).generation() != nullptr) seconds_together += seconds(time);
  }

  void deliver() {
    for (int letters = 0; !waiting_.empty(); ++letters) {
      REQUIRE(letters < 100000);
      const Letter letter = std::move(waiting_.front());
      waiting_.pop_front();
      if (letter.to == hostile) {
        const auto said = answer ? answer(letter.message) : std::nullopt;
        if (said) waiting_.push_back({hostile, letter.from, *said});
        continue;
      }
      Effects out;
      Agreement& peer = peers_.at(letter.to);
      peer.receive(now, letter.from, letter.message, planner_, out);
      if (peer.is_spoilt()) peer.disturb(now, {}, out);
      carry_out(letter.to, out);
    }
  }

  void carry_out(PeerId from, const Effects& out) {
    for (const Outgoing& outgoing : out.messages) {
      waiting_.push_back({from, outgoing.to, outgoing.message});
    }
    for (const Fact& fact : out.facts) {
      unsound_ += std::holds_alternative<UnsoundMessage>(fact);
      if (std::holds_alternative<GenerationBegan>(fact)) {
        begun.push_back(peers_.at(from).generation()->id);
      }
    }
  }

  ReplicaPlanner planner_;
  std::vector<PeerId> ids_;
  std::map<PeerId, Agreement> peers_;
  std::deque<Letter> waiting_;
  std::size_t unsound_ = 0;
};

/// If the message proposes a ballot, returns the promise of an honest peer; otherwise nothing.
inline std::optional<Message> promise(const Message& message) {
  const auto* propose = std::get_if<Propose>(&message);
  if (propose == nullptr) return {};
  return Message(Promise{propose->ballot, {.version = beginning}});
}

inline std::vector<PeerId> peers(std::initializer_list<std::uint64_t> ids) {
  std::vector<PeerId> all;
  for (const std::uint64_t id : ids) all.push_back(PeerId{id});
  return all;
}

}  // namespace gv
