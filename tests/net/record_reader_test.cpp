// Records cut into pieces of any length: every reader gets the same records in the desired memory.
#include "net/record_reader.hpp"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "base/rng.hpp"
#include "consensus/message/effects.hpp"

namespace gv {
namespace {

using Bytes = std::vector<std::byte>;

Bytes drawn(std::size_t size, Rng& rng) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(rng.below(256));
  return bytes;
}

struct Sent {
  RecordHeader header;
  Bytes bytes;
};

/// A random record. A quarter of the records have the largest length or one byte less. The others
/// are short.
Sent drawn_record(std::uint64_t number, Rng& rng) {
  constexpr std::array kinds{RecordKind::block, RecordKind::block, RecordKind::message,
                             RecordKind::ring_block, RecordKind::lent_block};
  Sent sent{.header = {.kind = kinds[rng.below(kinds.size())], .number = number}, .bytes = {}};
  const std::size_t longest = sent.header.kind == RecordKind::message ? 64 * 1024 : block_bytes_max;
  const std::size_t length = rng.below(4) == 0 ? longest - rng.below(2) : 1 + rng.below(9000);
  sent.header.length = static_cast<std::uint32_t>(length);
  if (sent.header.kind == RecordKind::lent_block) {
    sent.bytes = drawn(sizeof(LentPlace), rng);
  } else if (sent.header.kind != RecordKind::ring_block) {
    sent.bytes = drawn(length, rng);
  }
  return sent;
}

void append(Bytes& stream, const Sent& sent) {
  const auto header = std::as_bytes(std::span(&sent.header, 1));
  stream.insert(stream.end(), header.begin(), header.end());
  stream.insert(stream.end(), sent.bytes.begin(), sent.bytes.end());
}

/// Copies as much of the stream as fits into `room`, and returns the number of bytes.
std::size_t pour(std::span<const std::byte> stream, std::span<std::byte> room) {
  const std::size_t n = std::min(stream.size(), room.size());
  std::ranges::copy(stream.first(n), room.begin());
  return n;
}

}  // namespace

TEST_CASE("records are the same however they are cut, and lie where they are wanted") {
  Rng rng(GENERATE(range(1, 40)));
  std::vector<Sent> sent;
  Bytes stream;
  for (std::uint64_t number = 0; number < 30; ++number) {
    sent.push_back(drawn_record(number, rng));
    append(stream, sent.back());
  }
  const std::size_t longest_cut = std::array<std::size_t, 3>{60, 9000, 600000}[rng.below(3)];

  std::map<std::uint64_t, Bytes> places;  // Memory for each block that has a given place.
  std::set<std::uint64_t> taken_back;
  const RecordReader::Place place = [&](const RecordHeader& header) -> std::span<std::byte> {
    REQUIRE(header.kind == RecordKind::block);
    const auto known = places.find(header.number);
    if (known == places.end()) {
      if (header.number % 4 == 0) return {};
      return places[header.number] = Bytes(header.length);
    }
    if (header.number % 4 == 1 && rng.below(2) == 0) taken_back.insert(header.number);
    if (taken_back.contains(header.number)) return {};
    return known->second;
  };

  RecordReader reader;
  std::span<const std::byte> left(stream);
  auto next = sent.begin();
  std::size_t placed = 0;
  const auto skip_left_out = [&] {
    while (next != sent.end() && taken_back.contains(next->header.number)) ++next;
  };
  while (!left.empty()) {
    const auto room = reader.room(place);
    REQUIRE_FALSE(room[0].empty());
    const auto cut = left.first(std::min(left.size(), 1 + rng.below(longest_cut)));
    std::size_t came = pour(cut, room[0]);
    came += pour(cut.subspan(came), room[1]);
    reader.came(came);
    left = left.subspan(came);
    while (const auto record = reader.next()) {
      skip_left_out();
      REQUIRE(next != sent.end());
      REQUIRE(std::memcmp(&record->header, &next->header, sizeof(RecordHeader)) == 0);
      REQUIRE(std::ranges::equal(record->bytes, next->bytes));
      const auto wanted = places.find(next->header.number);
      if (wanted != places.end()) {
        REQUIRE(record->bytes.data() == wanted->second.data());
        ++placed;
      }
      ++next;
    }
    REQUIRE_FALSE(reader.is_malformed());
  }
  skip_left_out();
  CHECK(next == sent.end());
  CHECK_FALSE(reader.is_amid_record());
  CHECK(placed > 0);
}

TEST_CASE("a side that lets others write in their own time has records in the reader's memory") {
  Rng rng(7);
  RecordReader reader;
  for (std::uint64_t number = 0; number < 20; ++number) {
    const Sent sent = drawn_record(number, rng);
    Bytes stream;
    append(stream, sent);
    std::optional<Record> record;
    for (std::span<const std::byte> left(stream); !left.empty();) {
      REQUIRE_FALSE(record);
      const auto cut = left.first(std::min<std::size_t>(left.size(), 16384));
      const std::size_t came = pour(cut, reader.own_room());
      REQUIRE(came > 0);
      reader.came(came);
      left = left.subspan(came);
      CHECK(reader.is_amid_record());
      record = reader.next();
    }
    REQUIRE(record);
    CHECK(std::ranges::equal(record->bytes, sent.bytes));
    CHECK_FALSE(reader.is_amid_record());
  }
}

TEST_CASE("what can be no record is found out by its header") {
  const auto header = GENERATE(RecordHeader{.length = 0}, RecordHeader{.length = 1, .version = 9},
                               RecordHeader{.length = block_bytes_max + 1},
                               RecordHeader{.length = 65537, .kind = RecordKind::message},
                               RecordHeader{.length = 1, .kind = RecordKind{0}},
                               RecordHeader{.length = 1, .kind = RecordKind{8}},
                               RecordHeader{.length = 1, .transfer = TransferKind{7}});
  RecordReader reader;
  const auto place = [](const RecordHeader&) { return std::span<std::byte>(); };
  const std::size_t came = pour(std::as_bytes(std::span(&header, 1)), reader.room(place)[0]);
  reader.came(came);
  CHECK_FALSE(reader.next());
  CHECK(reader.is_malformed());
}

}  // namespace gv
