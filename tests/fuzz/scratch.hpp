// Files in memory, for targets that read a file.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <span>
#include <string>

#include "base/check.hpp"

namespace gv::fuzz {

/// A file that has a path but is not on a disk.
class MemoryFile {
 public:
  MemoryFile() : descriptor_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    check(descriptor_ >= 0, "the system has memory for a file");
  }
  ~MemoryFile() { ::close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  /// Replaces the file's content.
  void write(std::span<const std::byte> bytes) {
    const bool done =
        ::ftruncate(descriptor_, 0) == 0 &&
        ::pwrite(descriptor_, bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size());
    check(done, "a file in memory can be written");
  }

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

 private:
  int descriptor_;
};

}  // namespace gv::fuzz
