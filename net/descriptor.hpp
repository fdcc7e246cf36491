// Ownership of a file descriptor, and whether more of them may be opened.
#pragma once

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace gv {

/// Owns an open file descriptor, and closes it on destruction; -1 means that there is none.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  int get() const { return fd_; }
  /// Returns the descriptor, which the caller must close from now on.
  int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }

 private:
  int fd_;
};

/// True if the process may open more descriptors without using up the last ones, which are reserved
/// for lanes, checkpoints and reports.
inline bool has_spare_descriptors() {
  constexpr ::rlim_t reserve_max = 20;
  ::rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return true;
  // A new descriptor has the lowest free number.
  const Descriptor lowest(::eventfd(0, EFD_CLOEXEC));
  return lowest && static_cast<::rlim_t>(lowest.get()) <
                       limit.rlim_cur - std::min(reserve_max, limit.rlim_cur / 4);
}

}  // namespace gv
