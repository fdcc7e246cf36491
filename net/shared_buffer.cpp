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

/// Addresses, not memory: pages exist once they are written to.
constexpr std::size_t lent_bytes = std::size_t{1} << 36;
constexpr std::size_t page = 4096;

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
  for (auto gap = free_.begin(); alignment <= page && gap != free_.end(); ++gap) {
    const auto [place, length] = *gap;
    if (length < wanted) continue;
    free_.erase(gap);
    if (length > wanted) free_.emplace(place + wanted, length - wanted);
    return memory_.get() + place;
  }
  return std::pmr::new_delete_resource()->allocate(bytes, alignment);
}

void SharedBuffer::do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) {
  const std::optional<std::uint64_t> found =
      place_of({static_cast<const std::byte*>(memory), bytes});
  if (!found) {
    std::pmr::new_delete_resource()->deallocate(memory, bytes, alignment);
    return;
  }
  const std::size_t length = whole_pages(bytes);
  ::madvise(memory, length, MADV_REMOVE);
  const std::lock_guard lock(mutex_);
  auto gap = free_.emplace(*found, length).first;
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
