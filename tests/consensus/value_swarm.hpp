// A small swarm of one protocol, whose peers are copied and compared with those of other swarms.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/rng.hpp"
#include "base/state_hash.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

inline constexpr std::uint64_t swarm_peers = 4;
inline constexpr Duration swarm_tick = std::chrono::milliseconds(50);
inline constexpr std::size_t swarm_block = 32;

inline PeerId swarm_peer(std::uint64_t number) { return PeerId{number + 1}; }

inline std::vector<PeerId> swarm_order() {
  std::vector<PeerId> all;
  for (std::uint64_t number = 0; number < swarm_peers; ++number) all.push_back(swarm_peer(number));
  return all;
}

template <class P>
std::uint64_t hash_of(const P& protocol, Time now) {
  StateHash hash(now);
  hash.add(protocol);
  return hash.value();
}

/// Peers running one protocol. Each is a plain struct with `advance(now, out)` and, where the
/// protocol has them, `receive(now, envelope, out)` and `receive_block(now, from, block, out)`.
/// Links lose some of the messages and blocks.
template <class P>
class ValueSwarm {
 public:
  /// `loss` is the probability that a message or block is lost.
  ValueSwarm(std::vector<P> all, std::uint64_t seed, double loss)
      : peers_(std::move(all)), rng_(seed), loss_(loss) {}

  void step() {
    now_ += swarm_tick;
    for (std::uint64_t number = 0; number < swarm_peers; ++number) {
      Effects out;
      peers_[number].advance(now_, out);
      collect(swarm_peer(number), std::move(out));
    }
    for (int hop = 0; hop < 3; ++hop) {
      for (auto& [from, message] : std::exchange(sent_, {})) {
        if constexpr (requires(P & one, Effects & out) { one.receive(now_, Envelope(), out); }) {
          Effects out;
          at(message.to).receive(now_, {from, std::move(message.message)}, out);
          collect(message.to, std::move(out));
        }
      }
      for (auto& [from, transfer] : std::exchange(streams_, {})) send_block(from, transfer);
    }
  }

  Time now() const { return now_; }
  const std::vector<P>& all() const { return peers_; }

 private:
  P& at(PeerId peer) { return peers_[static_cast<std::size_t>(peer) - 1]; }

  void collect(PeerId from, Effects out) {
    for (Outgoing& message : out.messages) {
      if (!rng_.chance(loss_)) sent_.emplace_back(from, std::move(message));
    }
    for (const Cancel& cancel : out.cancels) {
      std::erase_if(streams_, [&](const auto& entry) { return entry.second.id == cancel.id; });
    }
    for (Transfer& transfer : out.transfers) streams_.emplace_back(from, std::move(transfer));
  }

  void send_block(PeerId from, Transfer& transfer) {
    if constexpr (requires(P & one, Effects & out) {
                    one.receive_block(now_, from, Block(), out);
                  }) {
      const auto rest = transfer.payload.bytes.subspan(transfer.offset);
      // A piece of a sum travels as one block.
      const std::size_t most = transfer.id.kind == TransferKind::piece ? rest.size() : swarm_block;
      const auto bytes = rest.first(std::min(most, rest.size()));
      Effects out;
      if (!rng_.chance(loss_)) {
        at(transfer.to).receive_block(now_, from, {transfer.id, transfer.offset, bytes}, out);
      }
      transfer.offset += bytes.size();
      if (bytes.size() < rest.size()) streams_.emplace_back(from, transfer);
      collect(transfer.to, std::move(out));
    }
  }

  std::vector<P> peers_;
  std::vector<std::pair<PeerId, Outgoing>> sent_;
  std::vector<std::pair<PeerId, Transfer>> streams_;
  Rng rng_;
  double loss_;
  Time now_{};
};

/// Runs two swarms with the same seed and a third with another, and compares all states that occur:
/// equal states must have equal hashes, and different states different hashes. Then lets a copy run
/// ahead. The copy must not affect the original, which must later reach the same state as the copy.
/// `make(seed)` makes a swarm.
template <class Make>
void check_values(Make make) {
  auto swarm = make(1);
  auto same = make(1);
  auto other = make(2);
  std::size_t unlike = 0;
  for (int round = 0; round < 150; ++round) {
    const auto before = swarm.all();
    swarm.step();
    same.step();
    other.step();
    for (std::uint64_t number = 0; number < swarm_peers; ++number) {
      const auto& now = swarm.all()[number];
      CHECK(equal_states(now, same.all()[number]));
      CHECK(hash_of(now, swarm.now()) == hash_of(same.all()[number], swarm.now()));
      for (const auto* rival : {&before[number], &other.all()[number]}) {
        const bool equal = equal_states(now, *rival);
        CHECK(equal == (hash_of(now, swarm.now()) == hash_of(*rival, swarm.now())));
        unlike += equal ? 0 : 1;
      }
    }
    if (round % 10 != 0) continue;
    auto ahead = swarm;
    for (int step = 0; step < 3; ++step) ahead.step();
    CHECK(equal_states(swarm.all(), same.all()));
    for (int step = 0; step < 3; ++step) swarm.step(), same.step(), other.step();
    CHECK(equal_states(ahead.all(), swarm.all()));
  }
  CHECK(unlike > 100);
}

}  // namespace gv
