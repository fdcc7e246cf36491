// Keeps blocks that arrive before their collective or pipeline run has begun at this peer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/ids.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// Keeps blocks in order of arrival. Copies a block's bytes unless they are in shared memory. The
/// blocks and the bookkeeping together stay below a memory limit. Pure.
class EarlyBlocks {
 public:
  struct Held {
    PeerId from{};
    Block block;  ///< Owns its memory, which is a copy of the bytes or the sender's shared buffer.
  };

  explicit EarlyBlocks(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  /// Keeps the block. Returns false if there is no room for it.
  bool keep(PeerId from, const Block& block);
  /// Drops all blocks except those of this session.
  void keep_only(std::uint64_t session);
  /// Removes and returns all blocks.
  std::deque<Held> take();
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_max_;
  std::deque<Held> held_;
  std::size_t bytes_ = 0;
};

}  // namespace gv
