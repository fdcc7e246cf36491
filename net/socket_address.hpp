// Addresses of Unix sockets, however long the path of their folder is.
#pragma once

#include <string>
#include <string_view>

#include "net/descriptor.hpp"

namespace gv {

/// Returns the address of a Unix socket in an open folder. A socket's own path may be too long: the
/// kernel's limit is 107 bytes.
inline std::string socket_address(const Descriptor& folder, std::string_view name) {
  return "/proc/self/fd/" + std::to_string(folder.get()) + "/" + std::string(name);
}

}  // namespace gv
