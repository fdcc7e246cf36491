// Memory of a peer that other peers on its host may read in place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "net/descriptor.hpp"

namespace gv {

/// Allocates memory for vectors that are sent to other peers. Within one host, a lane then sends
/// the place of a block instead of a copy. Freed memory goes back to the system, except for the
/// blocks freed last, whose pages serve the next allocations. When the buffer is full, it allocates
/// ordinary memory, whose blocks are copied. Thread-safe.
class SharedBuffer : public std::pmr::memory_resource {
 public:
  /// Returns null if the system refuses.
  static std::shared_ptr<SharedBuffer> make();

  /// The descriptor that the reader maps. Its memory can be neither shrunk nor grown, so reading
  /// the mapping cannot fault.
  int descriptor() const { return descriptor_.get(); }

  /// Returns the place of the bytes in the buffer; nullopt if they are not in it.
  std::optional<std::uint64_t> place_of(std::span<const std::byte> bytes) const;

 private:
  /// A range of whole pages in the buffer.
  struct Range {
    std::size_t place;
    std::size_t length;
  };

  SharedBuffer(Descriptor descriptor, std::shared_ptr<std::byte> memory);

  // Takes `length` free bytes and returns their place; nullopt if the buffer is full. The caller of
  // take(), keep_warm() or release() must hold the mutex.
  std::optional<std::size_t> take(std::size_t length);
  /// Returns the pages of the oldest freed ranges to the system until at most `most` bytes still
  /// have pages.
  void keep_warm(std::size_t most);
  void release(Range range);
  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  Descriptor descriptor_;
  std::shared_ptr<std::byte> memory_;
  std::mutex mutex_;
  /// Maps the place of each free range to its length. No two ranges touch.
  std::map<std::size_t, std::size_t> free_;
  std::deque<Range> warm_;  ///< Freed ranges that still have pages, oldest first.
  std::size_t warm_bytes_ = 0;
};

/// Another peer's shared buffer, mapped read-only. Its owner may change the content at any time, so
/// the content may be wrong, but reading is safe.
class BorrowedBuffer {
 public:
  /// Returns nullopt unless the descriptor belongs to a sealed buffer.
  static std::optional<BorrowedBuffer> map(const Descriptor& descriptor);

  /// Returns nullopt if the range is not inside the buffer.
  std::optional<std::span<const std::byte>> at(std::uint64_t place, std::size_t length) const;

 private:
  explicit BorrowedBuffer(std::shared_ptr<const std::byte> memory) : memory_(std::move(memory)) {}

  std::shared_ptr<const std::byte> memory_;
};

}  // namespace gv
