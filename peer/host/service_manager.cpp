// The protocol of sd_notify(3), a single datagram to a Unix socket, without a library.
#include "peer/host/service_manager.hpp"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>

namespace gv {

bool tell_service_manager(std::string_view state) {
  const char* const named = std::getenv("NOTIFY_SOCKET");
  const std::string_view path = named != nullptr ? named : "";
  ::sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() < 2 || path.size() >= sizeof(address.sun_path)) return false;
  std::memcpy(address.sun_path, path.data(), path.size());
  // A name that begins with @ is not in the file system. Its first byte is replaced by zero.
  const bool is_abstract = path.front() == '@';
  if (is_abstract) address.sun_path[0] = 0;
  const auto length = static_cast<::socklen_t>(offsetof(::sockaddr_un, sun_path) + path.size() +
                                               (is_abstract ? 0 : 1));
  const int socket = ::socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (socket < 0) return false;
  const auto* to = reinterpret_cast<const ::sockaddr*>(&address);
  const ::ssize_t sent = ::sendto(socket, state.data(), state.size(), MSG_NOSIGNAL, to, length);
  ::close(socket);
  return sent == static_cast<::ssize_t>(state.size());
}

}  // namespace gv
