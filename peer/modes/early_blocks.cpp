// Keeps blocks and counts their bytes.
#include "peer/modes/early_blocks.hpp"

#include <utility>

#include "base/state_hash.hpp"

namespace gv {

bool EarlyBlocks::keep(PeerId from, const Block& block) {
  // Counts bookkeeping too, because a small block takes more memory than its bytes.
  const std::size_t needed = block.bytes.size() + sizeof(Held);
  const auto found = taken_.find(from);
  const std::size_t taken = found == taken_.end() ? 0 : found->second;
  if (needed > bytes_max_ - taken) return false;
  taken_[from] = taken + needed;
  bytes_ += block.bytes.size();
  held_.push_back({from, kept(block)});
  return true;
}

void EarlyBlocks::keep_only(std::uint64_t session) {
  std::erase_if(held_, [&](const Held& piece) {
    if (piece.block.id.session == session) return false;
    bytes_ -= piece.block.bytes.size();
    taken_[piece.from] -= piece.block.bytes.size() + sizeof(Held);
    return true;
  });
  std::erase_if(taken_, [](const auto& sender) { return sender.second == 0; });
}

std::deque<EarlyBlocks::Held> EarlyBlocks::take() {
  bytes_ = 0;
  taken_.clear();
  return std::exchange(held_, {});
}

bool operator==(const EarlyBlocks& a, const EarlyBlocks& b) { return equal_states(a, b); }

}  // namespace gv
