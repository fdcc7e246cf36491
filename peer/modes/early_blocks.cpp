// Keeps blocks and counts their bytes.
#include "peer/modes/early_blocks.hpp"

#include <utility>

namespace gv {

bool EarlyBlocks::keep(PeerId from, const Block& block) {
  // Counts bookkeeping too, because a small block takes more memory than its bytes.
  const std::size_t taken = bytes_ + (held_.size() + 1) * sizeof(Held);
  if (taken > bytes_max_ || block.bytes.size() > bytes_max_ - taken) return false;
  bytes_ += block.bytes.size();
  held_.push_back({from, kept(block)});
  return true;
}

void EarlyBlocks::keep_only(std::uint64_t session) {
  for (const Held& piece : held_) {
    if (piece.block.id.session != session) bytes_ -= piece.block.bytes.size();
  }
  std::erase_if(held_, [session](const Held& piece) { return piece.block.id.session != session; });
}

std::deque<EarlyBlocks::Held> EarlyBlocks::take() {
  bytes_ = 0;
  return std::exchange(held_, {});
}

}  // namespace gv
