// Shared buffers: memory is allocated, read by another peer, and freed.
#include "net/shared_buffer.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <utility>
#include <vector>

#include "base/floats.hpp"
#include "base/rng.hpp"
#include "net/sealed_file.hpp"

namespace gv {
namespace {

std::optional<BorrowedBuffer> borrow(const SharedBuffer& lent) {
  return BorrowedBuffer::map(Descriptor(::fcntl(lent.descriptor(), F_DUPFD_CLOEXEC, 0)));
}

TEST_CASE("a borrower reads vectors where they lie, as they change") {
  const auto lent = SharedBuffer::make();
  REQUIRE(lent);
  const auto borrowed = borrow(*lent);
  REQUIRE(borrowed);
  Floats values(10000, 1.5f, lent.get());
  const auto bytes = std::as_bytes(std::span(values));
  const auto place = lent->place_of(bytes.subspan(400));
  REQUIRE(place);
  const auto seen = borrowed->at(*place, bytes.size() - 400);
  REQUIRE(seen);
  CHECK(seen->data() != bytes.data() + 400);
  values[100] = 7;
  float first = 0;
  std::memcpy(&first, seen->data(), sizeof first);
  CHECK(first == 7);
  CHECK(std::ranges::equal(*seen, bytes.subspan(400)));
}

TEST_CASE("only what lies in lent memory has a place, and only that can be borrowed") {
  const auto lent = SharedBuffer::make();
  const std::vector<float> elsewhere(10);
  CHECK_FALSE(lent->place_of(std::as_bytes(std::span(elsewhere))));
  const auto borrowed = borrow(*lent);
  REQUIRE(borrowed);
  const std::uint64_t end = std::uint64_t{1} << 36;
  CHECK(borrowed->at(end - 8, 8));
  CHECK_FALSE(borrowed->at(end - 8, 9));
  CHECK_FALSE(borrowed->at(end + 8, 0));
  CHECK_FALSE(borrowed->at(~std::uint64_t{0}, 8));
  CHECK_FALSE(BorrowedBuffer::map(Descriptor()));
  CHECK_FALSE(BorrowedBuffer::map(make_sealed_file("short", 4096)));
}

TEST_CASE("memory of huge pages that the system may lack is not borrowed") {
  const Descriptor huge(::memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  if (!huge) {
    WARN("this system has no files of huge pages; skipped");
    return;
  }
  REQUIRE(::ftruncate(huge.get(), off_t{1} << 36) == 0);
  REQUIRE(::fcntl(huge.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
  CHECK_FALSE(BorrowedBuffer::map(huge));
}

TEST_CASE("memory is handed out once at a time, and what was freed becomes one piece again") {
  const auto lent = SharedBuffer::make();
  Rng rng(3);
  std::vector<std::pair<Floats, float>> held;
  for (int round = 0; round < 2000; ++round) {
    if (held.size() < 20 && rng.chance(0.6)) {
      const auto mark = static_cast<float>(round + 1);
      Floats fresh(lent.get());
      fresh.reserve(1 + rng.below(20000));
      fresh.assign(fresh.capacity(), mark);
      held.emplace_back(std::move(fresh), mark);
    } else if (!held.empty()) {
      const std::size_t which = rng.below(held.size());
      const auto& [values, mark] = held[which];
      REQUIRE(std::ranges::all_of(values, [mark = mark](float value) { return value == mark; }));
      held.erase(held.begin() + static_cast<std::ptrdiff_t>(which));
    }
  }
  held.clear();
  // The memory is one piece again, so it can be allocated all at once.
  const std::size_t whole = std::size_t{1} << 36;
  void* const all = lent->allocate(whole);
  CHECK(lent->place_of({static_cast<const std::byte*>(all), whole}) == 0);
  // A full buffer allocates ordinary memory.
  Floats more(100, lent.get());
  CHECK_FALSE(lent->place_of(std::as_bytes(std::span(more))));
  lent->deallocate(all, whole);
}

TEST_CASE("the newest freed blocks keep their pages, and older ones give them back") {
  const auto lent = SharedBuffer::make();
  constexpr std::size_t mib = std::size_t{1} << 20;
  const auto allocate = [&] { return static_cast<std::byte*>(lent->allocate(mib)); };
  std::vector<std::byte*> blocks;
  for (int i = 0; i < 20; ++i) blocks.push_back(allocate());
  for (std::byte* const block : blocks) std::memset(block, 1, mib);
  for (std::byte* const block : blocks) lent->deallocate(block, mib);
  // A page without memory reads as zeros.
  const auto kept =
      std::ranges::count_if(blocks, [](std::byte* block) { return *block == std::byte{1}; });
  CHECK(kept == 16);
  CHECK(*blocks.front() == std::byte{});
  CHECK(allocate() == blocks[4]);  // This is the oldest block that kept its pages.
}

}  // namespace
}  // namespace gv
