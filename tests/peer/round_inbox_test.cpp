// Messages assembled from blocks that may arrive twice, late, or before their generation.
#include "peer/modes/round_inbox.hpp"

#include <array>
#include <catch2/catch.hpp>
#include <numeric>
#include <vector>

namespace gv {
namespace {

constexpr PeerId sender{7};
constexpr std::uint64_t key = 100;
constexpr std::uint64_t next_key = 101;

class Inbox {
 public:
  Inbox() { box.enter(key); }

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
    for (const MixMessage& message : box.take(last, std::array{sender})) {
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
  inbox.box.enter(key, true);
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
  inbox.box.enter(next_key);
  CHECK(inbox.taken(0) == Rounds{0});
}

TEST_CASE("a message of a peer that has no rank is dropped when messages are taken", "[unit]") {
  Inbox inbox;
  CHECK(inbox.whole(0));
  CHECK(inbox.box.take(0, std::array{PeerId{8}}).empty());
  CHECK(inbox.taken(0).empty());
  CHECK(inbox.whole(1));
  const std::vector<MixMessage> messages = inbox.box.take(1, std::array{PeerId{8}, sender});
  REQUIRE(messages.size() == 1);
  CHECK(messages.front().from == 1);
}

}  // namespace gv
