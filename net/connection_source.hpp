// The network source whose limits apply to a connection.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <string>

namespace gv {

/// Returns the bytes of an IPv4 address, or the first half of an IPv6 address, because a machine
/// can choose the second half itself. A socket for both families shows IPv4 addresses as
/// ::ffff:a.b.c.d; each of these is a separate source. Returns an empty string for Unix sockets.
inline std::string source_of(const sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address).sin_addr;
    return {reinterpret_cast<const char*>(&v4), sizeof v4};
  }
  if (address.ss_family == AF_INET6) {
    const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address).sin6_addr;
    const char* bytes = reinterpret_cast<const char*>(&v6);
    if (IN6_IS_ADDR_V4MAPPED(&v6)) return {bytes + sizeof v6 - sizeof(in_addr), sizeof(in_addr)};
    return {bytes, sizeof v6 / 2};
  }
  return {};
}

}  // namespace gv
