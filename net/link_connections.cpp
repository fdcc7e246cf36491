// Looks at the system's own count of each connection's bytes.
#include "net/link_connections.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

namespace gv {
namespace {

/// Both ends of the connection with that descriptor, as bytes; empty if there is none.
std::string ends_of(int descriptor) {
  std::string ends;
  for (const auto ask : {&::getsockname, &::getpeername}) {
    ::sockaddr_storage address{};
    ::socklen_t length = sizeof address;
    if (ask(descriptor, reinterpret_cast<::sockaddr*>(&address), &length) != 0) return {};
    ends.append(reinterpret_cast<const char*>(&address), length);
  }
  return ends;
}

/// Bytes that a TCP connection has received; nothing if it is none.
std::optional<std::uint64_t> received_on(int descriptor) {
  ::tcp_info info{};
  ::socklen_t length = sizeof info;
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return std::nullopt;
  return info.tcpi_bytes_received;
}

int descriptor_of(const zmq::message_t& message) {
  return ::zmq_msg_get(message.handle(), ZMQ_SRCFD);
}

}  // namespace

void LinkConnections::opened(int descriptor) {
  connections_[descriptor] = {.ends = ends_of(descriptor)};
}

void LinkConnections::heard(const zmq::message_t& message, PeerId peer) {
  const int descriptor = descriptor_of(message);
  if (descriptor < 0) return;
  if (!connections_.contains(descriptor)) opened(descriptor);
  Connection& connection = connections_[descriptor];
  connection.was_heard = true;
  connection.peer = peer;
}

void LinkConnections::hang_up(const zmq::message_t& message) {
  const auto found = connections_.find(descriptor_of(message));
  if (found == connections_.end()) return;
  // The message may be older than the end of its connection.
  const std::string ends = ends_of(found->first);
  if (!ends.empty() && ends == found->second.ends) ::shutdown(found->first, SHUT_RDWR);
}

std::vector<std::optional<PeerId>> LinkConnections::hang_up_on_endless() {
  std::uint64_t in_all = 0;
  std::vector<std::pair<std::uint64_t, int>> unfinished;
  for (auto entry = connections_.begin(); entry != connections_.end();) {
    auto& [descriptor, connection] = *entry;
    const std::optional<std::uint64_t> received = received_on(descriptor);
    if (!received) {
      entry = connections_.erase(entry);
      continue;
    }
    // Fewer bytes than before: the descriptor is that of another connection by now.
    if (*received < connection.received_before) connection = {.ends = ends_of(descriptor)};
    if (connection.was_heard) connection.received_before = *received;
    connection.was_heard = false;
    connection.unfinished = *received - connection.received_before;
    in_all += connection.unfinished;
    unfinished.emplace_back(connection.unfinished, descriptor);
    ++entry;
  }
  std::ranges::sort(unfinished, std::ranges::greater());
  std::vector<std::optional<PeerId>> peers;
  for (const auto& [bytes, descriptor] : unfinished) {
    if (bytes <= options_.bytes_max && in_all <= options_.bytes_max_in_all) break;
    in_all -= bytes;
    const auto found = connections_.find(descriptor);
    if (ends_of(descriptor) == found->second.ends) {
      ::shutdown(descriptor, SHUT_RDWR);
      peers.push_back(found->second.peer);
    }
    connections_.erase(found);
  }
  return peers;
}

}  // namespace gv
