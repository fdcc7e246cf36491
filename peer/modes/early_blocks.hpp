// Blocks that came before what they belong to has begun here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>

#include "base/ids.hpp"
#include "consensus/message/effects.hpp"

namespace gv {

/// Blocks in the order in which they came, copied unless they are on loan; with what it takes to
/// keep them no more bytes than a limit. Pure.
class EarlyBlocks {
 public:
  struct Held {
    PeerId from{};
    Block block;  ///< With a loan.
  };

  explicit EarlyBlocks(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  /// False where there is no room for it.
  bool keep(PeerId from, const Block& block);
  /// Forgets all but those of that session.
  void keep_only(std::uint64_t session);
  /// All of them; none is left.
  std::deque<Held> take();
  std::size_t bytes() const { return bytes_; }

 private:
  std::size_t bytes_max_;
  std::deque<Held> held_;
  std::size_t bytes_ = 0;
};

}  // namespace gv
