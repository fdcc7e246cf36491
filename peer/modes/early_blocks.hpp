// Blocks that arrive before their collective or run has begun here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/ids.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// Blocks in order of arrival, copied unless they are in shared memory. Bytes and bookkeeping
/// together stay below a limit. Pure.
class EarlyBlocks {
 public:
  struct Held {
    PeerId from{};
    Block block;  ///< Owns its memory: a copy of the bytes, or the sender's shared buffer.
  };

  explicit EarlyBlocks(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  /// Returns false if there is no room for the block.
  bool keep(PeerId from, const Block& block);
  /// Drops all blocks except those of that session.
  void keep_only(std::uint64_t session);
  /// Takes out all blocks.
  std::deque<Held> take();
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_max_;
  std::deque<Held> held_;
  std::size_t bytes_ = 0;
};

}  // namespace gv
