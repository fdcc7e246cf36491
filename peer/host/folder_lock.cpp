// The lock of a run folder: flock(2) on a file that holds the pid.
#include "peer/host/folder_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>

namespace gv {
namespace {

constexpr ::mode_t lock_mode = 0600;

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder) {
  const std::filesystem::path path = folder / "lock";
  file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, lock_mode);
  if (file_ < 0) {
    throw std::runtime_error(path.string() + ": cannot be written: " + std::strerror(errno));
  }
  if (::flock(file_, LOCK_EX | LOCK_NB) != 0) {
    is_taken_ = errno == EWOULDBLOCK;
    std::array<char, 32> text{};
    const ::ssize_t length = ::pread(file_, text.data(), text.size(), 0);
    if (length > 0) holder_.assign(text.data(), static_cast<std::size_t>(length));
    return;
  }
  const std::string own = std::to_string(::getpid());
  // The pid is only information for people. The lock works without it.
  const bool is_empty = ::ftruncate(file_, 0) == 0;
  static_cast<void>(is_empty && ::pwrite(file_, own.data(), own.size(), 0) > 0);
}

FolderLock::~FolderLock() {
  // Children made by fork() have copies of the descriptor, which would hold on to the lock.
  if (!is_taken_) ::flock(file_, LOCK_UN);
  ::close(file_);
}

}  // namespace gv
