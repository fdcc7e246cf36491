// One sparse sealed file, and a list of its free ranges.
#include "net/shared_buffer.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "net/sealed_file.hpp"

namespace gv {
namespace {

/// Length of the buffer. This is address space, not memory, because a page exists only once it is
/// written to.
constexpr std::size_t lent_bytes = std::size_t{1} << 36;
constexpr std::size_t page = 4096;
/// The most memory that freed blocks may keep. Getting a page from the system, which fills it with
/// zeros, takes longer than sending the page. Keeping pages makes sums of 1 MiB, computed by
/// exchanging whole vectors, twice as fast.
constexpr std::size_t warm_bytes_max = std::size_t{16} << 20;

std::size_t whole_pages(std::size_t bytes) {
  return (std::max<std::size_t>(bytes, 1) + page - 1) / page * page;
}

}  // namespace

std::shared_ptr<SharedBuffer> SharedBuffer::make() {
  Descriptor file = make_sealed_file("grapevine-lent", lent_bytes);
  if (!file) return nullptr;
  std::shared_ptr<std::byte> memory = map_file(file, lent_bytes, true);
  if (!memory) return nullptr;
  return std::shared_ptr<SharedBuffer>(new SharedBuffer(std::move(file), std::move(memory)));
}

SharedBuffer::SharedBuffer(Descriptor descriptor, std::shared_ptr<std::byte> memory)
    : descriptor_(std::move(descriptor)), memory_(std::move(memory)), free_{{0, lent_bytes}} {}

std::optional<std::uint64_t> SharedBuffer::place_of(std::span<const std::byte> bytes) const {
  const std::less<> before;
  const std::byte* const begin = memory_.get();
  const bool inside = !before(bytes.data(), begin) && before(bytes.data(), begin + lent_bytes);
  if (!inside) return std::nullopt;
  return static_cast<std::uint64_t>(bytes.data() - begin);
}

void* SharedBuffer::do_allocate(std::size_t bytes, std::size_t alignment) {
  const std::size_t wanted = whole_pages(bytes);
  const std::lock_guard lock(mutex_);
  const auto place = alignment <= page ? take(wanted) : std::nullopt;
  if (place) return memory_.get() + *place;
  return std::pmr::new_delete_resource()->allocate(bytes, alignment);
}

std::optional<std::size_t> SharedBuffer::take(std::size_t length) {
  const auto warm = std::ranges::find(warm_, length, &Range::length);
  if (warm != warm_.end()) {
    const std::size_t place = warm->place;
    warm_bytes_ -= length;
    warm_.erase(warm);
    return place;
  }
  const auto fits = [&](const auto& gap) { return gap.second >= length; };
  auto gap = std::ranges::find_if(free_, fits);
  if (gap == free_.end()) {
    keep_warm(0);
    gap = std::ranges::find_if(free_, fits);
  }
  if (gap == free_.end()) return std::nullopt;
  const auto [place, all] = *gap;
  free_.erase(gap);
  if (all > length) free_.emplace(place + length, all - length);
  return place;
}

void SharedBuffer::do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) {
  const std::optional<std::uint64_t> found =
      place_of({static_cast<const std::byte*>(memory), bytes});
  if (!found) {
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
    return;
  }
  const std::size_t length = whole_pages(bytes);
  const std::lock_guard lock(mutex_);
  warm_.push_back({*found, length});
  warm_bytes_ += length;
  keep_warm(warm_bytes_max);
}

void SharedBuffer::keep_warm(std::size_t most) {
  while (warm_bytes_ > most) {
    warm_bytes_ -= warm_.front().length;
    release(warm_.front());
    warm_.pop_front();
  }
}

void SharedBuffer::release(Range range) {
  ::madvise(memory_.get() + range.place, range.length, MADV_REMOVE);
  auto gap = free_.emplace(range.place, range.length).first;
  const auto next = std::next(gap);
  if (next != free_.end() && gap->first + gap->second == next->first) {
    gap->second += next->second;
    free_.erase(next);
  }
  if (gap == free_.begin()) return;
  const auto last = std::prev(gap);
  if (last->first + last->second != gap->first) return;
  last->second += gap->second;
  free_.erase(gap);
}

std::optional<BorrowedBuffer> BorrowedBuffer::map(const Descriptor& descriptor) {
  if (!is_sealed_file(descriptor, lent_bytes)) return std::nullopt;
  auto memory = map_file(descriptor, lent_bytes, false);
  if (!memory) return std::nullopt;
  return BorrowedBuffer(std::move(memory));
}

std::optional<std::span<const std::byte>> BorrowedBuffer::at(std::uint64_t place,
                                                             std::size_t length) const {
  if (place > lent_bytes || length > lent_bytes - place) return std::nullopt;
  return std::span(memory_.get() + place, length);
}

}  // namespace gv
