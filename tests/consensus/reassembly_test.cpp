// Byte vectors are assembled from their blocks, and blocks that do not fit change nothing.
#include "consensus/transfer/reassembly.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>
#include <vector>

#include "base/rng.hpp"

namespace gv {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t element = 4;

Bytes drawn_bytes(std::size_t size, Rng& rng) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.below(256));
  return bytes;
}

/// The part of `whole` that begins at `offset`, as a block.
Block part_of(const Bytes& whole, std::size_t offset, std::size_t size) {
  return {.id = {}, .offset = offset, .bytes = std::span(whole).subspan(offset, size)};
}

/// A vector that is arriving, and its original.
struct Arriving {
  explicit Arriving(std::size_t size) : blocks(size, element), memory(size) {
    Rng rng(size);
    whole = drawn_bytes(size, rng);
  }
  BlockFit take(std::size_t offset, std::size_t size) {
    return blocks.take(part_of(whole, offset, size), memory);
  }
  BlockFit take_zeros(std::uint64_t offset, std::size_t size) {
    const Bytes zeros(size);
    return blocks.take({.id = {}, .offset = offset, .bytes = zeros}, memory);
  }

  Reassembly blocks;
  Bytes memory;
  Bytes whole;
};

}  // namespace

TEST_CASE("only the last block of a vector may be a crumb", "[unit]") {
  const Bytes zeros(100);
  const auto taken = [&](Reassembly& blocks, std::size_t size) {
    const std::uint64_t at = blocks.received();
    return blocks.take(Block{.id = {}, .offset = at, .bytes = std::span(zeros).first(size)});
  };
  Reassembly blocks(100, element, 40);
  CHECK(taken(blocks, 36) == BlockFit::bad_length);
  CHECK(taken(blocks, 44) == BlockFit::next);
  CHECK(taken(blocks, 4) == BlockFit::bad_length);
  CHECK(taken(blocks, 40) == BlockFit::next);
  CHECK(taken(blocks, 12) == BlockFit::bad_length);
  CHECK(taken(blocks, 16) == BlockFit::next);
  CHECK(blocks.is_whole());
}

TEST_CASE("a vector is whole when its blocks have come in order", "[unit]") {
  Arriving vector(40);
  CHECK_FALSE(vector.blocks.is_whole());
  CHECK(vector.take(0, 16) == BlockFit::next);
  CHECK(vector.blocks.received() == 16);
  CHECK(vector.take(16, 24) == BlockFit::next);
  CHECK(vector.blocks.is_whole());
  CHECK(vector.memory == vector.whole);
}

TEST_CASE("only the block that begins at the first missing byte counts", "[unit]") {
  Arriving vector(40);
  REQUIRE(vector.take(0, 16) == BlockFit::next);
  CHECK(vector.take_zeros(0, 16) == BlockFit::misplaced);   // This block repeats an earlier one.
  CHECK(vector.take_zeros(12, 8) == BlockFit::misplaced);   // This block overlaps an earlier one.
  CHECK(vector.take_zeros(20, 20) == BlockFit::misplaced);  // This block leaves a gap.
  CHECK(vector.take_zeros(16, 0) == BlockFit::misplaced);   // This block is empty.
  CHECK(vector.blocks.received() == 16);
  CHECK(vector.take(16, 24) == BlockFit::next);
  CHECK(vector.memory == vector.whole);
}

TEST_CASE("a block beyond the end or one that ends within an element is its sender's fault",
          "[unit]") {
  Arriving vector(40);
  REQUIRE(vector.take(0, 32) == BlockFit::next);
  CHECK(vector.take_zeros(32, 12) == BlockFit::bad_length);
  CHECK(vector.take_zeros(32, 6) == BlockFit::bad_length);
  CHECK(vector.blocks.received() == 32);
  CHECK(vector.take(32, 8) == BlockFit::next);
  CHECK(vector.take_zeros(40, 4) == BlockFit::bad_length);
  CHECK(vector.take_zeros(std::numeric_limits<std::uint64_t>::max(), 8) == BlockFit::misplaced);
  CHECK(vector.memory == vector.whole);
}

TEST_CASE("a stream is checked in the same way without memory of its own", "[unit]") {
  const Bytes bytes(12);
  Reassembly stream(12, element);
  CHECK(stream.take(part_of(bytes, 4, 4)) == BlockFit::misplaced);
  CHECK(stream.take(part_of(bytes, 0, 8)) == BlockFit::next);
  CHECK(stream.take(part_of(bytes, 0, 8)) == BlockFit::misplaced);
  CHECK(stream.take(part_of(bytes, 8, 4)) == BlockFit::next);
  CHECK(stream.is_whole());
}

TEST_CASE("the next block can be received in its place without a copy", "[unit]") {
  Arriving vector(40);
  REQUIRE(vector.take(0, 16) == BlockFit::next);
  CHECK(vector.blocks.place(0, 16, vector.memory).empty());
  CHECK(vector.blocks.place(16, 28, vector.memory).empty());
  const std::span<std::byte> place = vector.blocks.place(16, 24, vector.memory);
  REQUIRE(place.data() == vector.memory.data() + 16);
  REQUIRE(place.size() == 24);
  std::copy_n(vector.whole.begin() + 16, 24, place.begin());
  CHECK(vector.blocks.take({.id = {}, .offset = 16, .bytes = place}, vector.memory) ==
        BlockFit::next);
  CHECK(vector.memory == vector.whole);
}

TEST_CASE("a vector whose length turns out later ends there unless more has come", "[unit]") {
  const Bytes bytes(64);
  Reassembly message(64);
  REQUIRE(message.take(part_of(bytes, 0, 20)) == BlockFit::next);
  CHECK_FALSE(message.end_at(19));
  CHECK_FALSE(message.end_at(65));
  CHECK(message.total() == 64);
  CHECK(message.end_at(30));
  CHECK(message.take(part_of(bytes, 20, 11)) == BlockFit::bad_length);
  CHECK(message.take(part_of(bytes, 20, 10)) == BlockFit::next);
  CHECK(message.is_whole());
}

TEST_CASE("after going back a vector goes on from there", "[unit]") {
  Arriving vector(40);
  REQUIRE(vector.take(0, 32) == BlockFit::next);
  vector.blocks.go_back_to(8);
  CHECK(vector.take(32, 8) == BlockFit::misplaced);
  CHECK(vector.take(8, 32) == BlockFit::next);
  CHECK(vector.memory == vector.whole);
}

TEST_CASE("a sender can resume at every element and at the end", "[unit]") {
  const Reassembly blocks(12, element);
  CHECK(blocks.can_resume_at(0));
  CHECK(blocks.can_resume_at(8));
  CHECK(blocks.can_resume_at(12));
  CHECK_FALSE(blocks.can_resume_at(6));
  CHECK_FALSE(blocks.can_resume_at(16));
}

// Genuine blocks are mixed with hostile ones that contain zeros. All bytes that are accepted must
// be genuine, and nothing may be written beyond the vector.
TEST_CASE("whatever blocks come a vector holds only what its sender streamed", "[unit]") {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Rng rng(seed);
    const std::size_t size = element * (1 + rng.below(64));
    Arriving vector(size);
    constexpr std::size_t guard = 64;
    Bytes room(size + guard, std::byte{0xee});
    const std::span<std::byte> memory = std::span(room).first(size);
    for (std::size_t blocks = 0; !vector.blocks.is_whole(); ++blocks) {
      REQUIRE(blocks < 100'000);
      const std::uint64_t before = vector.blocks.received();
      const bool is_true = rng.below(3) == 0;
      const std::size_t left = size - before;
      const std::size_t length =
          is_true ? std::min(left, element * (1 + rng.below(8))) : rng.below(2 * left + 8);
      std::uint64_t offset = rng.below(8) == 0 ? rng.next() : rng.below(2 * size);
      // A hostile block with the right offset and length could not be told from a genuine one, so
      // none is sent.
      const bool would_fit = offset == before && length <= left && length % element == 0;
      if (!is_true && would_fit && length > 0) offset = before + 1;
      const Bytes zeros(length);
      const Block block = is_true ? part_of(vector.whole, before, length)
                                  : Block{.id = {}, .offset = offset, .bytes = zeros};
      const BlockFit fit = vector.blocks.take(block, memory);
      CHECK((fit == BlockFit::next) == is_true);
      CHECK(vector.blocks.received() == before + (is_true ? length : 0));
    }
    CHECK(std::ranges::equal(memory, vector.whole));
    CHECK(std::all_of(room.begin() + static_cast<std::ptrdiff_t>(size), room.end(),
                      [](std::byte byte) { return byte == std::byte{0xee}; }));
  }
}

}  // namespace gv
