// Messages assembled from blocks that may arrive twice, late, or before their generation.
#include "peer/modes/round_inbox.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <numeric>
#include <utility>
#include <vector>

namespace gv {
namespace {

constexpr PeerId sender{7};
constexpr std::uint64_t key = 100;
constexpr std::uint64_t next_key = 101;

class Inbox {
 public:
  Inbox() { enter(key); }

  void enter(std::uint64_t generation, const InboxLimit& limit = {}) {
    box.enter(generation, std::array{sender}, limit);
  }

  /// Receives a block of `size` bytes at `offset`.
  bool block(std::uint64_t round, std::size_t offset, std::size_t size,
             std::uint64_t generation = key) {
    bytes_.assign(size, std::byte{1});
    return box.receive(sender,
                       {.id = {sender, generation, round}, .offset = offset, .bytes = bytes_});
  }
  bool whole(std::uint64_t round) { return block(round, 0, size); }
  std::vector<std::uint64_t> taken(std::uint64_t last) {
    std::vector<std::uint64_t> rounds;
    for (const MixMessage& message : box.take(last)) {
      rounds.push_back(message.round);
    }
    return rounds;
  }

  std::size_t size = 10;
  RoundInbox box{[this](std::uint64_t, std::span<const std::byte>) { return size; }, 64};

 private:
  std::vector<std::byte> bytes_;
};

using Rounds = std::vector<std::uint64_t>;

}  // namespace

TEST_CASE("a peer that sends rounds without end costs a bounded number of messages", "[unit]") {
  Inbox inbox;
  for (std::uint64_t round = 0; round < 10000; ++round) {
    inbox.block(round, round % 2 == 0 ? 0 : 3, 4);          // This message is never complete.
    inbox.block(5000 + round, 0, inbox.size);               // This message is complete.
    inbox.block(round << 40, 0, 4, round % 2 ? 300 : 400);  // This is for a later generation.
  }
  CHECK(inbox.box.held() <= 3 * RoundInbox::messages_max);
  // Taking messages makes room for others.
  CHECK(inbox.taken(20000).size() > 0);
  CHECK(inbox.whole(20001));
}

TEST_CASE("of a peer that is far ahead of one that never waits the newest messages are kept",
          "[unit]") {
  constexpr std::uint64_t most = RoundInbox::messages_max;
  Inbox inbox;
  inbox.enter(key, {.keeps_newest = true});
  inbox.block(0, 0, 4);  // The remaining blocks of this message never come.
  for (std::uint64_t round = 1; round < most + 10; ++round) CHECK(inbox.whole(round));
  CHECK(inbox.box.dropped() == 10);
  CHECK(inbox.box.held() == most);
  // A dropped message does not come back. A message older than all waiting messages is not kept.
  CHECK_FALSE(inbox.block(0, 4, 6));
  CHECK_FALSE(inbox.whole(9));
  CHECK(inbox.box.dropped() == 10);
  Rounds kept(most);
  std::iota(kept.begin(), kept.end(), 10);
  CHECK(inbox.taken(2 * most) == kept);
}

TEST_CASE("of a peer that is far ahead of one that waits the oldest messages are kept", "[unit]") {
  constexpr std::uint64_t most = RoundInbox::messages_max;
  Inbox inbox;
  for (std::uint64_t round = 0; round < most; ++round) CHECK(inbox.whole(round));
  CHECK_FALSE(inbox.whole(most));
  CHECK(inbox.box.dropped() == 1);
  CHECK(inbox.taken(0) == Rounds{0});
  CHECK(inbox.whole(most));
}

TEST_CASE("a message is whole when all of its blocks are there", "[unit]") {
  Inbox inbox;
  CHECK(inbox.block(0, 0, 6));
  CHECK_FALSE(inbox.box.has(sender, 0));
  CHECK_FALSE(inbox.block(0, 0, 6));  // This block arrives again.
  CHECK_FALSE(inbox.block(0, 6, 5));  // This block is longer than the missing part.
  CHECK(inbox.block(0, 6, 4));
  CHECK(inbox.box.has(sender, 0));
  CHECK(inbox.taken(0) == Rounds{0});
}

TEST_CASE("a message that comes twice counts once, also when its round is over", "[unit]") {
  Inbox inbox;
  CHECK(inbox.whole(0));
  CHECK_FALSE(inbox.whole(0));
  CHECK(inbox.taken(0) == Rounds{0});
  CHECK_FALSE(inbox.whole(0));
  inbox.box.close_before(1);
  CHECK_FALSE(inbox.whole(0));
  CHECK(inbox.whole(1));
  CHECK(inbox.taken(1) == Rounds{1});
}

TEST_CASE("where rounds do not end, a late message counts and a repeated one does not", "[unit]") {
  Inbox inbox;
  for (std::uint64_t round = 0; round < 300; ++round) {
    if (round == 250) continue;
    CHECK(inbox.whole(round));
    CHECK(inbox.taken(round) == Rounds{round});
  }
  CHECK(inbox.whole(250));
  CHECK(inbox.taken(299) == Rounds{250});
  for (std::uint64_t round = 0; round < 300; ++round) CHECK_FALSE(inbox.whole(round));
  CHECK(inbox.taken(299).empty());
}

TEST_CASE("what comes before its generation may be longer than what this one sends", "[unit]") {
  Inbox inbox;
  CHECK(inbox.block(0, 0, 20, next_key));
  CHECK_FALSE(inbox.block(0, 20, 50, next_key));  // No mixing rule sends that much.
  CHECK(inbox.block(0, 20, 10, next_key));
  CHECK_FALSE(inbox.box.has(sender, 0));
  inbox.size = 30;
  inbox.enter(next_key);
  CHECK(inbox.taken(0) == Rounds{0});
}

TEST_CASE("a message of a peer that has no rank is dropped", "[unit]") {
  Inbox inbox;
  CHECK(inbox.block(0, 0, inbox.size, next_key));
  inbox.box.enter(next_key, std::array{PeerId{8}});
  CHECK_FALSE(inbox.block(1, 0, inbox.size, next_key));
  CHECK(inbox.box.held() == 0);
  inbox.box.enter(key, std::array{PeerId{8}, sender});
  CHECK(inbox.whole(1));
  const std::vector<MixMessage> messages = inbox.box.take(1);
  REQUIRE(messages.size() == 1);
  CHECK(messages.front().from == 1);
}

TEST_CASE("of a peer that waits no more messages are kept than it can send before it waits",
          "[unit]") {
  const MixRule rule{.staleness = GENERATE(std::uint64_t{0}, std::uint64_t{3})};
  const InboxLimit limit = inbox_limit(rule, RoundPlan(rule, 8, 1), false);
  const std::size_t most = 2 * (rule.staleness + 1);
  Inbox inbox;
  // The peer may be in a generation whose rule we do not know yet. Once we know it, it applies to
  // messages that have arrived before, too.
  for (std::uint64_t round = 0; round < 300; ++round) {
    inbox.block(round, 0, inbox.size, next_key);
  }
  CHECK(inbox.box.held() == RoundInbox::messages_max);
  inbox.enter(next_key, limit);
  CHECK(inbox.box.held() == most);
  for (std::uint64_t round = 0; round < 300; ++round) {
    inbox.block(round, 0, inbox.size, next_key);
    inbox.block(round, 0, inbox.size, next_key + 1);
  }
  CHECK(inbox.box.held() == most + RoundInbox::early_max);
}

TEST_CASE("of a peer that never waits a few messages are kept where only the newest counts",
          "[unit]") {
  const MixRule rule{.staleness = unbounded_staleness};
  Inbox inbox;
  inbox.enter(key, inbox_limit(rule, RoundPlan(rule, 8, 1), false));
  for (std::uint64_t round = 0; round < 100; ++round) CHECK(inbox.whole(round));
  CHECK(inbox.box.held() == 4);
  CHECK(inbox.box.dropped() == 0);  // The dropped messages were of no use.
  CHECK(inbox.taken(99).back() == 99);
}

namespace {

/// The most messages of one sender that wait at a peer that makes no more rounds, while all others
/// make as many as they can.
std::size_t most_waiting(const MixRule& rule, std::size_t peers) {
  const RoundPlan plan(rule, peers, 3);
  constexpr std::size_t stopped = 1;
  constexpr std::uint64_t last = 20;  // The last round that the stopped peer has sent.
  std::vector<std::uint64_t> sent(peers, last);
  std::vector<std::size_t> waiting(peers);
  const auto count = [&](std::size_t rank, std::uint64_t round) {
    const std::vector<std::size_t> to = plan.turn(rank, round).out;
    waiting[rank] += std::ranges::count(to, stopped) > 0 ? 1 : 0;
  };
  // When it mixed the round before its last one, it may have missed the messages of the rounds
  // that its staleness allows.
  for (std::size_t rank = 0; rank < peers; ++rank) {
    for (std::uint64_t round = last - rule.staleness; round <= last; ++round) count(rank, round);
  }
  const auto may_go_on = [&](std::size_t rank) {
    const std::uint64_t due = sent[rank] - rule.staleness;
    return std::ranges::all_of(plan.turn(rank, due).in,
                               [&](const Share& share) { return sent[share.from] >= due; });
  };
  for (bool moves = true; std::exchange(moves, false);) {
    for (std::size_t rank = 0; rank < peers; ++rank) {
      if (rank == stopped || !may_go_on(rank)) continue;
      moves = true;
      count(rank, ++sent[rank]);
    }
  }
  return std::ranges::max(waiting);
}

}  // namespace

TEST_CASE("no peer that waits for others reaches the limit however far it is ahead", "[unit]") {
  const std::size_t peers = GENERATE(2, 5, 8, 16);
  const std::uint64_t staleness = GENERATE(0, 2);
  for (const TopologyKind kind : topology_kinds) {
    for (const Partners partners : {Partners::neighbours, Partners::both, Partners::pairs}) {
      const MixRule rule{.topology = {.kind = kind}, .partners = partners, .staleness = staleness};
      if (partners == Partners::pairs && problem_with_pairs(rule.topology)) continue;
      INFO(to_string(kind) << " " << to_string(partners) << " " << peers);
      CHECK(most_waiting(rule, peers) <= RoundPlan(rule, peers, 3).waiting_max());
    }
  }
}

}  // namespace gv
