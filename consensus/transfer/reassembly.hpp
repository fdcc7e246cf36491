// Puts one byte vector together from the blocks of its transfer, in order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/state_hash.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// What a block is to a vector that is being put together.
enum class BlockFit {
  next,        ///< It begins where the last one ended, and was taken.
  misplaced,   ///< Repeated, overlapping, ahead of a missing one, or empty: of no use.
  bad_length,  ///< It goes on after the end, or ends within an element: its sender is at fault.
};

/// How far one byte vector has come. A sender streams a vector in order, so only the block that
/// begins at the first missing byte counts. A block that does not fit changes nothing, whatever it
/// contains: what is missing is asked for again from received() on. Here is the only place where
/// offsets and lengths of blocks are checked. Pure, and a value.
class Reassembly {
 public:
  /// Nothing is missing.
  Reassembly() = default;
  /// Of `total` bytes, or at most that many until end_at() is called. Each block ends at the end of
  /// an element of `element` bytes, which divides the total.
  explicit Reassembly(std::uint64_t total, std::size_t element = 1);

  /// Judges a block and counts it if it is the next. The caller takes its bytes as a stream.
  BlockFit take(const Block& block);
  /// The same, and copies the bytes to their place in `memory`, which has total() bytes; unless
  /// they already lie there.
  BlockFit take(const Block& block, std::span<std::byte> memory);
  /// Where in `memory` a block under way can be received without a copy; empty if it will not fit.
  std::span<std::byte> place(std::uint64_t offset, std::size_t bytes,
                             std::span<std::byte> memory) const;

  /// Bytes that have come, which is also the offset to resume at.
  std::uint64_t received() const { return received_; }
  std::uint64_t total() const { return total_; }
  bool is_whole() const { return received_ == total_; }
  /// Whether a sender can go on at this offset when it is asked to.
  bool can_resume_at(std::uint64_t offset) const;

  /// Forgets all that came from `offset` on, which is at most received().
  void go_back_to(std::uint64_t offset);
  /// The vector turns out to end at `total` bytes. False, and nothing changes, if more have come or
  /// it was to be shorter.
  bool end_at(std::uint64_t total);

  friend class Fields;
  static constexpr std::size_t field_count = 3;
  friend bool operator==(const Reassembly& a, const Reassembly& b) { return equal_states(a, b); }

 private:
  BlockFit judge(std::uint64_t offset, std::size_t bytes) const;

  std::uint64_t total_ = 0;
  std::uint64_t received_ = 0;
  std::size_t element_ = 1;
};

}  // namespace gv
