// Checks the offsets and lengths of blocks, and counts the bytes that have arrived.
#include "consensus/transfer/reassembly.hpp"

#include <cstring>

#include "base/check.hpp"
#include "base/state_hash.hpp"

namespace gv {

Reassembly::Reassembly(std::uint64_t total, std::size_t element, std::size_t block_least)
    : total_(total), element_(element), block_least_(block_least) {
  check(element_ > 0 && total_ % element_ == 0, "a vector consists of whole elements");
}

BlockFit Reassembly::judge(std::uint64_t offset, std::size_t bytes) const {
  if (offset != received_ || bytes == 0) return BlockFit::misplaced;
  // Subtract instead of adding, because the sum of offset and length might overflow.
  const std::uint64_t missing = total_ - received_;
  if (bytes > missing || bytes % element_ != 0) return BlockFit::bad_length;
  if (bytes < missing && bytes < block_least_) return BlockFit::bad_length;
  return BlockFit::next;
}

BlockFit Reassembly::take(const Block& block) {
  const BlockFit fit = judge(block.offset, block.bytes.size());
  if (fit == BlockFit::next) received_ += block.bytes.size();
  return fit;
}

BlockFit Reassembly::take(const Block& block, std::span<std::byte> memory) {
  const std::span<std::byte> wanted = place(block.offset, block.bytes.size(), memory);
  if (!wanted.empty() && wanted.data() != block.bytes.data()) {
    std::memcpy(wanted.data(), block.bytes.data(), wanted.size());
  }
  return take(block);
}

std::span<std::byte> Reassembly::place(std::uint64_t offset, std::size_t bytes,
                                       std::span<std::byte> memory) const {
  check(memory.size() == total_, "the memory has room for the whole vector");
  if (judge(offset, bytes) != BlockFit::next) return {};
  return memory.subspan(received_, bytes);
}

bool Reassembly::can_resume_at(std::uint64_t offset) const {
  return offset <= total_ && offset % element_ == 0;
}

void Reassembly::go_back_to(std::uint64_t offset) {
  check(offset <= received_ && offset % element_ == 0, "only what has come can be forgotten");
  received_ = offset;
}

bool Reassembly::end_at(std::uint64_t total) {
  if (total < received_ || total > total_ || total % element_ != 0) return false;
  total_ = total;
  return true;
}

bool operator==(const Reassembly& a, const Reassembly& b) { return equal_states(a, b); }

}  // namespace gv
