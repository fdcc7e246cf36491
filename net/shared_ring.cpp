// Sealed anonymous files as rings of blocks.
#include "net/shared_ring.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>

#include "consensus/base/check.hpp"

namespace gv {
namespace {

constexpr int seals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

std::shared_ptr<std::byte> mapped(int fd, int protection) {
  void* memory = ::mmap(nullptr, ring_bytes, protection, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return nullptr;
  return {static_cast<std::byte*>(memory), [](std::byte* begin) { ::munmap(begin, ring_bytes); }};
}

}  // namespace

std::optional<RingWriter> RingWriter::make() {
  Descriptor file(::memfd_create("grapevine-lane", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!file || ::ftruncate(file.get(), ring_bytes) != 0 ||
      ::fcntl(file.get(), F_ADD_SEALS, seals) != 0) {
    return std::nullopt;
  }
  auto memory = mapped(file.get(), PROT_READ | PROT_WRITE);
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
  struct stat about {};
  const bool stays = descriptor && ::fcntl(descriptor.get(), F_GET_SEALS) == seals &&
                     ::fstat(descriptor.get(), &about) == 0 &&
                     static_cast<std::size_t>(about.st_size) == ring_bytes;
  if (!stays) return std::nullopt;
  auto memory = mapped(descriptor.get(), PROT_READ);
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
