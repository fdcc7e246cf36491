// Sets the TCP options of lanes, so that lanes do not wait needlessly.
#include "net/lane_connection.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <string>
#include <string_view>

#include "net/acknowledgement_deadline.hpp"
#include "net/descriptor.hpp"

namespace gv {
namespace {

/// Between hosts, the system sizes the buffers by the bytes in flight. A fixed size, often at most
/// 416 KiB, would leave long links underused. At most one block waits unsent, because messages have
/// to wait behind it.
constexpr int unsent_max_bytes = block_bytes_max;
/// Within one host, bytes arrive as soon as they are sent. Larger buffers would only push them out
/// of a processor's cache, and smaller ones would make two peers wait for each other.
constexpr int host_send_buffer_bytes = 512 << 10;
constexpr int host_receive_buffer_bytes = 768 << 10;
constexpr std::string_view unpaced = "reno";  ///< Has no pacing, and any process may use it.
/// Most bytes in a congestion control's name, including the zero byte.
constexpr std::size_t name_max = 16;

void choose_congestion_control(int socket, std::string_view name) {
  ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(),
               static_cast<socklen_t>(name.size()));
}

/// The system's default congestion control.
const std::string& usual_congestion_control() {
  static const std::string usual = [] {
    std::array<char, name_max> name{};
    socklen_t size = name.size() - 1;
    const Descriptor probe(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (!probe || ::getsockopt(probe.get(), IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) != 0) {
      return std::string(unpaced);
    }
    return std::string(name.data());
  }();
  return usual;
}

/// Returns true if both ends of a TCP connection are on the same host.
bool ends_are_one_host(int socket) {
  sockaddr_storage own{};
  sockaddr_storage other{};
  socklen_t own_size = sizeof own;
  socklen_t other_size = sizeof other;
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &own_size) != 0 ||
      ::getpeername(socket, reinterpret_cast<sockaddr*>(&other), &other_size) != 0 ||
      own.ss_family != other.ss_family) {
    return false;
  }
  if (own.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(own).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(other).sin_addr.s_addr;
  }
  return own.ss_family == AF_INET6 &&
         std::memcmp(&reinterpret_cast<const sockaddr_in6&>(own).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(other).sin6_addr,
                     sizeof(in6_addr)) == 0;
}

}  // namespace

void begin_unpaced(int socket) { choose_congestion_control(socket, unpaced); }

void LaneConnection::tune() {
  const int handle = socket.native_handle();
  // Every write is a complete record, which Nagle's algorithm would only delay until an ACK
  // arrives.
  constexpr int at_once = 1;
  ::setsockopt(handle, IPPROTO_TCP, TCP_NODELAY, &at_once, sizeof at_once);
  asio::error_code ignored;
  if (ends_are_one_host(handle)) {
    socket.set_option(asio::socket_base::send_buffer_size(host_send_buffer_bytes), ignored);
    socket.set_option(asio::socket_base::receive_buffer_size(host_receive_buffer_bytes), ignored);
  } else {
    ::setsockopt(handle, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent_max_bytes,
                 sizeof unsent_max_bytes);
    ::setsockopt(handle, IPPROTO_TCP, TCP_USER_TIMEOUT, &unacknowledged_max_ms,
                 sizeof unacknowledged_max_ms);
    choose_congestion_control(handle, usual_congestion_control());
  }
}

std::size_t LaneConnection::write_now() {
  if (tls) return 0;
  asio::error_code error;
  // If writing fails, the same error will appear again when the remaining bytes are written.
  const std::size_t written = socket.write_some(out_buffers, error);
  std::size_t left = written;
  while (!out_buffers.empty() && left >= out_buffers.front().size()) {
    left -= out_buffers.front().size();
    out_buffers.erase(out_buffers.begin());
  }
  if (!out_buffers.empty()) out_buffers.front() += left;
  return written;
}

}  // namespace gv