// Memory between two peers on one host: one writes a block into it, the other reads it in place.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "consensus/message/effects.hpp"
#include "net/descriptor.hpp"

namespace gv {

/// Number of slots in the ring of one direction. With two, both ends can work at the same time;
/// more slots were not faster in any measurement.
inline constexpr std::size_t ring_slots = 2;
inline constexpr std::size_t ring_bytes = ring_slots * block_bytes_max;

/// The writing end. Slots are used in order, and records on the lane's socket say which slots hold
/// a block. So neither end has to trust the memory, and neither ever spins.
class RingWriter {
 public:
  /// Makes the memory; nullopt if the system refuses.
  static std::optional<RingWriter> make();

  /// The descriptor that the reader maps. Its memory can be neither shrunk nor grown, so reading
  /// the mapping cannot fault.
  int descriptor() const { return descriptor_.get(); }

  std::size_t free_slots() const { return ring_slots - used_; }

  /// Copies a block of at most `block_bytes_max` bytes into the next slot, which must be free.
  void put(std::span<const std::byte> block);

  /// Frees `count` slots that the reader is done with. Returns false if fewer are in use.
  bool release(std::size_t count);

 private:
  RingWriter(Descriptor descriptor, std::shared_ptr<std::byte> memory)
      : descriptor_(std::move(descriptor)), memory_(std::move(memory)) {}

  Descriptor descriptor_;
  std::shared_ptr<std::byte> memory_;
  std::size_t next_ = 0;
  std::size_t used_ = 0;
};

/// The reading end, mapped read-only.
class RingReader {
 public:
  /// Maps a partner's ring; nullopt if it is not sealed memory of the right size.
  static std::optional<RingReader> map(const Descriptor& descriptor);

  /// Returns the block in the next slot. Read it only once, because the partner could still change
  /// it.
  std::span<const std::byte> take(std::size_t length);

 private:
  explicit RingReader(std::shared_ptr<const std::byte> memory) : memory_(std::move(memory)) {}

  std::shared_ptr<const std::byte> memory_;
  std::size_t next_ = 0;
};

}  // namespace gv
