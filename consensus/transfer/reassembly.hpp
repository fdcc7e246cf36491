// Assembles one byte vector from the blocks of a transfer, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "consensus/message/effects.hpp"

namespace gv {

/// How a block fits the vector that is being assembled.
enum class BlockFit {
  next,  ///< The block begins where the previous one ended, and was taken.
  /// The block repeats or overlaps others, lies beyond a gap, or is empty. It was ignored.
  misplaced,
  /// The block extends beyond the end, ends within an element, or is too short. The sender is at
  /// fault.
  bad_length,
};

/// Counts how much of one byte vector has arrived. A sender streams a vector in order, so only the
/// block that begins at the first missing byte counts. A block that does not fit changes nothing,
/// whatever it contains. The receiver can ask again for the bytes from received() on. Offsets and
/// lengths of blocks are checked only here. Pure, with value semantics.
class Reassembly {
 public:
  /// An empty vector, which is complete.
  Reassembly() = default;
  /// A vector of `total` bytes, or of at most `total` until end_at() is called. Elements have
  /// `element` bytes each. `total` must be a multiple of `element`, and each block must end at the
  /// end of an element. A block that does not complete the vector must have at least `block_least`
  /// bytes. Otherwise, a sender of tiny blocks could take forever, even though each block arrives
  /// in time.
  explicit Reassembly(std::uint64_t total, std::size_t element = 1, std::size_t block_least = 1);

  /// Checks a block, and counts it if it is the next one. The caller consumes its bytes as a
  /// stream.
  BlockFit take(const Block& block);
  /// Like take(), but also copies the bytes into place in `memory`, which has total() bytes, unless
  /// they are already there.
  BlockFit take(const Block& block, std::span<std::byte> memory);
  /// The part of `memory` into which an arriving block can be received without a copy. Empty if the
  /// block will not fit.
  std::span<std::byte> place(std::uint64_t offset, std::size_t bytes,
                             std::span<std::byte> memory) const;

  /// Bytes that have arrived. This is also the offset to resume at.
  std::uint64_t received() const { return received_; }
  std::uint64_t total() const { return total_; }
  bool is_whole() const { return received_ == total_; }
  /// True if a sender can resume at this offset.
  bool can_resume_at(std::uint64_t offset) const;

  /// Forgets the bytes from `offset` on. `offset` must be the end of an element and at most
  /// received().
  void go_back_to(std::uint64_t offset);
  /// Shortens the vector to `total` bytes. Returns false and changes nothing if more bytes have
  /// arrived, the vector is shorter already, or `total` is not the end of an element.
  bool end_at(std::uint64_t total);

  friend class Fields;
  static constexpr std::size_t field_count = 4;
  friend bool operator==(const Reassembly& a, const Reassembly& b);

 private:
  BlockFit judge(std::uint64_t offset, std::size_t bytes) const;

  std::uint64_t total_ = 0;
  std::uint64_t received_ = 0;
  std::size_t element_ = 1;
  std::size_t block_least_ = 1;
};

}  // namespace gv
