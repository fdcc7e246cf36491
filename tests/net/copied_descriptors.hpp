// Copies of descriptors, such as a child made by fork() has.
#pragma once

#include <fcntl.h>

#include <vector>

#include "net/descriptor.hpp"

namespace gv {

/// Copies of all open descriptors of this process. As in a child made by fork(), they keep sockets
/// open that their owner has closed.
inline std::vector<Descriptor> copied_descriptors() {
  constexpr int watched = 1024;
  std::vector<int> open;
  for (int descriptor = 0; descriptor < watched; ++descriptor) {
    if (::fcntl(descriptor, F_GETFD) >= 0) open.push_back(descriptor);
  }
  std::vector<Descriptor> copies;
  for (const int descriptor : open) {
    copies.emplace_back(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
  }
  return copies;
}

}  // namespace gv
