// Keeps blocks that arrive before their collective or pipeline run has begun at this peer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>

#include "base/ids.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// Keeps blocks in order of arrival. Copies a block's bytes unless they are in shared memory. The
/// blocks of each sender, with their bookkeeping, stay below a memory limit. So a peer that sends
/// useless blocks takes no room from the others. Pure, with value semantics.
class EarlyBlocks {
 public:
  struct Held {
    PeerId from{};
    Block block;  ///< Owns its memory, which is a copy of the bytes or the sender's shared buffer.
  };

  /// `bytes_max` is the limit for each sender.
  explicit EarlyBlocks(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  /// Keeps the block. Returns false and changes nothing if its sender has no room left.
  bool keep(PeerId from, const Block& block);
  /// Drops all blocks except those of this session.
  void keep_only(std::uint64_t session);
  /// Removes and returns all blocks.
  std::deque<Held> take();
  /// Bytes of all blocks, without their bookkeeping.
  std::size_t bytes() const { return bytes_; }
  std::size_t bytes_max() const { return bytes_max_; }

  friend class Fields;
  static constexpr std::size_t field_count = 4;
  friend bool operator==(const EarlyBlocks& a, const EarlyBlocks& b);

 private:
  std::size_t bytes_max_;
  std::deque<Held> held_;
  std::size_t bytes_ = 0;
  std::map<PeerId, std::size_t> taken_;  ///< Bytes of each sender's blocks and bookkeeping.
};

}  // namespace gv
