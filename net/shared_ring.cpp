// Sealed anonymous files as rings of blocks.
#include "net/shared_ring.hpp"

#include <cstring>

#include "base/check.hpp"
#include "net/sealed_file.hpp"

namespace gv {

std::optional<RingWriter> RingWriter::make() {
  Descriptor file = make_sealed_file("grapevine-lane", ring_bytes);
  if (!file) return std::nullopt;
  auto memory = map_file(file, ring_bytes, true);
  if (!memory) return std::nullopt;
  return RingWriter(std::move(file), std::move(memory));
}

void RingWriter::put(std::span<const std::byte> block) {
  check(used_ < ring_slots && block.size() <= block_bytes_max, "a block goes into a free slot");
  if (!block.empty()) {
    std::memcpy(memory_.get() + next_ * block_bytes_max, block.data(), block.size());
  }
  next_ = (next_ + 1) % ring_slots;
  ++used_;
}

bool RingWriter::release(std::size_t count) {
  if (count > used_) return false;
  used_ -= count;
  return true;
}

std::optional<RingReader> RingReader::map(const Descriptor& descriptor) {
  if (!is_sealed_file(descriptor, ring_bytes)) return std::nullopt;
  auto memory = map_file(descriptor, ring_bytes, false);
  if (!memory) return std::nullopt;
  return RingReader(std::move(memory));
}

std::span<const std::byte> RingReader::take(std::size_t length) {
  check(length <= block_bytes_max, "a block fits its slot");
  const std::span<const std::byte> block(memory_.get() + next_ * block_bytes_max, length);
  next_ = (next_ + 1) % ring_slots;
  return block;
}

}  // namespace gv
