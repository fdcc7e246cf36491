// Protocol objects are values: copies behave alike, and equal states have equal hashes.
#include "base/state_hash.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/boxed.hpp"
#include "consensus/generation/agreement.hpp"
#include "consensus/membership/membership.hpp"
#include "tests/signers.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t peers = 4;
constexpr Duration tick = 50ms;

PeerId peer(std::uint64_t number) { return PeerId{number + 1}; }

std::vector<PeerId> all_peers() {
  std::vector<PeerId> all;
  for (std::uint64_t number = 0; number < peers; ++number) all.push_back(peer(number));
  return all;
}

template <class P>
std::uint64_t hash_of(const P& protocol, Time now) {
  StateHash hash(now);
  hash.add(protocol);
  return hash.value();
}

/// Plans that all peers continue from the newest version that any of them has.
class EveryPeer : public GenerationPlanner {
 public:
  std::optional<Generation> plan(const Answers& answers, const Generation*) const override {
    Generation start;
    for (const auto& [id, answer] : answers) {
      start.order.push_back(id);
      start.sources.push_back(id);
      start.shares.push_back(1);
      start.version = answer.version;
    }
    return start;
  }
  bool can_begin(const Generation&, PeerId, const Answer&) const override { return true; }
};

/// A small swarm of one protocol, whose links lose some messages. `make(number)` makes a peer;
/// `receive` and `advance` give it a message or the time.
template <class P>
class Swarm {
 public:
  using Receive = void (*)(P&, Time, const Envelope&, Effects&);
  using Advance = void (*)(P&, Time, Effects&);

  Swarm(std::vector<P> all, Receive receive, Advance advance, std::uint64_t seed)
      : peers_(std::move(all)), receive_(receive), advance_(advance), rng_(seed) {}

  void step() {
    now_ += tick;
    std::vector<std::pair<PeerId, Outgoing>> sent;
    const auto collect = [&](PeerId from, Effects& out) {
      for (Outgoing& message : out.messages) {
        if (!rng_.chance(0.2)) sent.emplace_back(from, std::move(message));
      }
    };
    for (std::uint64_t number = 0; number < peers; ++number) {
      Effects out;
      advance_(peers_[number], now_, out);
      collect(peer(number), out);
    }
    for (int hop = 0; hop < 3; ++hop) {
      for (auto& [from, message] : std::exchange(sent, {})) {
        Effects out;
        const auto to = static_cast<std::uint64_t>(message.to) - 1;
        receive_(peers_[to], now_, {from, std::move(message.message)}, out);
        collect(message.to, out);
      }
    }
  }

  Time now() const { return now_; }
  const std::vector<P>& all() const { return peers_; }

 private:
  std::vector<P> peers_;
  Receive receive_;
  Advance advance_;
  Rng rng_;
  Time now_{};
};

Swarm<Membership> members(std::uint64_t seed) {
  std::vector<Membership> all;
  for (std::uint64_t number = 0; number < peers; ++number) {
    Member self{.id = peer(number), .name = "peer", .address = "here:1"};
    all.emplace_back(self, all_peers(), Membership::Options{}, signer_of(self.id),
                     Rng(seed + number));
    Effects ignored;
    for (const PeerId other : all_peers()) all.back().contact(Time{}, other, ignored);
  }
  return {std::move(all),
          [](Membership& one, Time now, const Envelope& in, Effects& out) {
            one.receive(now, in.from, in.message, out);
          },
          [](Membership& one, Time now, Effects& out) { one.tick(now, out); }, seed};
}

Swarm<Agreement> agreements(std::uint64_t seed) {
  std::vector<Agreement> all;
  for (std::uint64_t number = 0; number < peers; ++number) {
    all.emplace_back(peer(number), seed + number + 1, Agreement::Options{});
    all.back().set_candidates(Time{}, all_peers());
    Effects ignored;
    all.back().disturb(Time{}, {}, ignored);
  }
  return {std::move(all),
          [](Agreement& one, Time now, const Envelope& in, Effects& out) {
            one.receive(now, in.from, in.message, EveryPeer(), out);
          },
          [](Agreement& one, Time now, Effects& out) {
            one.tick(now, EveryPeer(), out);
            // Ending generations now and then keeps ballots going.
            if (now.time_since_epoch() % (40 * tick) == Duration{}) one.disturb(now, {}, out);
          },
          seed};
}

/// Runs two swarms with one seed and one swarm with another seed, and compares all their states.
template <class Make>
void check_values(Make make) {
  auto swarm = make(1);
  auto same = make(1);
  auto other = make(2);
  std::size_t unlike = 0;
  for (int round = 0; round < 200; ++round) {
    const auto before = swarm.all();
    swarm.step();
    same.step();
    other.step();
    for (std::uint64_t number = 0; number < peers; ++number) {
      const auto& now = swarm.all()[number];
      CHECK(now == same.all()[number]);
      CHECK(hash_of(now, swarm.now()) == hash_of(same.all()[number], swarm.now()));
      // The compiler generates operator==, so if the hash omits a field, two states that differ
      // only there reveal it.
      for (const auto* rival : {&before[number], &other.all()[number]}) {
        const bool equal = now == *rival;
        CHECK(equal == (hash_of(now, swarm.now()) == hash_of(*rival, swarm.now())));
        unlike += equal ? 0 : 1;
      }
    }
  }
  CHECK(unlike > 100);
}

}  // namespace

TEST_CASE("a membership is a value whose hash tells its states apart", "[unit]") {
  check_values(members);
}

TEST_CASE("an agreement is a value whose hash tells its states apart", "[unit]") {
  check_values(agreements);
}

TEST_CASE("a copy of a protocol object goes on as the original does", "[unit]") {
  auto swarm = members(3);
  for (int round = 0; round < 40; ++round) swarm.step();
  Membership original = swarm.all()[0];
  Membership copy = original;
  Effects from_original;
  Effects from_copy;
  bool differed = false;
  for (int round = 1; round < 40; ++round) {
    original.tick(swarm.now() + round * tick, from_original);
    differed = differed || !(original == copy);
    copy.tick(swarm.now() + round * tick, from_copy);
    CHECK(original == copy);
  }
  CHECK(differed);
  CHECK(from_original.messages.size() == from_copy.messages.size());
}

TEST_CASE("states that differ only in their age have one hash", "[unit]") {
  struct Timed {
    Time at{};
    Time idle = never;
  };
  CHECK(hash_of(Timed{Time(5s)}, Time(3s)) == hash_of(Timed{Time(9s)}, Time(7s)));
  CHECK(hash_of(Timed{Time(5s)}, Time(3s)) != hash_of(Timed{Time(5s)}, Time(4s)));
}

}  // namespace gv
