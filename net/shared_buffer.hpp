// Memory of a peer that others on its host may read where it lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <utility>

#include "net/descriptor.hpp"

namespace gv {

/// Hands out memory for vectors that are sent: a lane to a peer on the same host then tells it the
/// place of a block instead of copying the block. Memory that was given back goes to the system.
/// When there is no more of it, ordinary memory is handed out, whose blocks are copied. May be
/// used by several threads.
class SharedBuffer : public std::pmr::memory_resource {
 public:
  /// Null when the system has none to give.
  static std::shared_ptr<SharedBuffer> make();

  /// What a borrower maps. It can be neither shrunk nor grown, so reading it cannot fault.
  int descriptor() const { return descriptor_.get(); }

  /// Where a borrower finds the bytes; empty if they do not lie here.
  std::optional<std::uint64_t> place_of(std::span<const std::byte> bytes) const;

 private:
  SharedBuffer(Descriptor descriptor, std::shared_ptr<std::byte> memory);

  void* do_allocate(std::size_t bytes, std::size_t alignment) override;
  void do_deallocate(void* memory, std::size_t bytes, std::size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override {
    return this == &other;
  }

  Descriptor descriptor_;
  std::shared_ptr<std::byte> memory_;
  std::mutex mutex_;
  std::map<std::size_t, std::size_t> free_;  ///< Length by place, no two of them adjacent.
};

/// Another peer's memory, mapped read-only. Its owner may change what lies there, so whatever is
/// read may be wrong, but reading is safe.
class BorrowedBuffer {
 public:
  /// Empty when the descriptor is not that of memory that stays as it is.
  static std::optional<BorrowedBuffer> map(const Descriptor& descriptor);

  /// Empty if that is not inside.
  std::optional<std::span<const std::byte>> at(std::uint64_t place, std::size_t length) const;

 private:
  explicit BorrowedBuffer(std::shared_ptr<const std::byte> memory) : memory_(std::move(memory)) {}

  std::shared_ptr<const std::byte> memory_;
};

}  // namespace gv
