// Reads the system's count of the bytes received on each connection.
#include "net/link_connections.hpp"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>

#include "net/connection_source.hpp"

namespace gv {
namespace {

/// Returns the number that the system gives to the socket of this descriptor and to no other
/// socket; 0 if there is none.
std::uint64_t identity_of(int descriptor) {
  std::uint64_t identity = 0;
  ::socklen_t length = sizeof identity;
  const int failed = ::getsockopt(descriptor, SOL_SOCKET, SO_COOKIE, &identity, &length);
  return failed == 0 ? identity : 0;
}

/// Returns the bytes that a TCP connection has received; nullopt if the descriptor has no such
/// connection.
std::optional<std::uint64_t> received_on(int descriptor) {
  ::tcp_info info{};
  ::socklen_t length = sizeof info;
  if (::getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return std::nullopt;
  return info.tcpi_bytes_received;
}

int descriptor_of(const zmq::message_t& message) {
  return ::zmq_msg_get(message.handle(), ZMQ_SRCFD);
}

/// Returns our own port of a TCP connection; nullopt if the descriptor has no such connection.
std::optional<std::uint16_t> port_of(int descriptor) {
  ::sockaddr_storage address{};
  ::socklen_t length = sizeof address;
  if (::getsockname(descriptor, reinterpret_cast<::sockaddr*>(&address), &length) != 0) {
    return std::nullopt;
  }
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const ::sockaddr_in&>(address).sin_port);
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const ::sockaddr_in6&>(address).sin6_port);
  }
  return std::nullopt;
}

/// The address that a connection comes from, without its port.
std::string source_of_descriptor(int descriptor) {
  ::sockaddr_storage address{};
  ::socklen_t length = sizeof address;
  if (::getpeername(descriptor, reinterpret_cast<::sockaddr*>(&address), &length) != 0) return {};
  return source_of(address);
}

}  // namespace

/// False if the connection has ended, even if another one now has its descriptor.
bool LinkConnections::is_open(int descriptor) const {
  const auto found = connections_.find(descriptor);
  const std::uint64_t identity = identity_of(descriptor);
  return found != connections_.end() && identity != 0 && identity == found->second.identity;
}

void LinkConnections::hang_up_on(int descriptor) const {
  if (is_open(descriptor)) ::shutdown(descriptor, SHUT_RDWR);
}

void LinkConnections::opened(int descriptor, Time now) {
  // A connection that has ended may have left its descriptor to another socket, such as a lane's.
  if (port_of(descriptor) != port_) return;
  const std::uint64_t identity = identity_of(descriptor);
  const auto known = connections_.find(descriptor);
  // The first message may have been seen before this report that the connection was accepted.
  if (known != connections_.end() && known->second.identity == identity && known->second.peer) {
    return;
  }
  connections_[descriptor] = {.identity = identity};
  const auto id = static_cast<ProvingPlaces::Id>(descriptor);
  const auto gone = places_.enter(now, id, source_of_descriptor(descriptor));
  if (gone) hang_up_on(static_cast<int>(*gone));
}

void LinkConnections::heard(const zmq::message_t& message, PeerId peer) {
  const int descriptor = descriptor_of(message);
  if (descriptor < 0) return;
  Connection& connection = connections_[descriptor];
  // An earlier connection may have had the descriptor.
  const std::uint64_t identity = identity_of(descriptor);
  if (connection.identity != identity) connection = {.identity = identity};
  connection.was_heard = true;
  connection.heard_at = ++messages_;
  if (connection.peer == peer) return;
  connection.peer = peer;
  places_.leave(static_cast<ProvingPlaces::Id>(descriptor));
  limit(peer);
}

/// Keeps the number of a peer's connections within its limit.
void LinkConnections::limit(PeerId peer) {
  std::size_t count = 0;
  const Connections::value_type* longest_ago = nullptr;
  for (const auto& entry : connections_) {
    if (entry.second.peer != peer) continue;
    ++count;
    if (longest_ago == nullptr || entry.second.heard_at < longest_ago->second.heard_at) {
      longest_ago = &entry;
    }
  }
  if (count <= options_.per_peer_max) return;
  hang_up_on(longest_ago->first);
  connections_.erase(longest_ago->first);
}

void LinkConnections::hang_up(const zmq::message_t& message) {
  const int descriptor = descriptor_of(message);
  // The message may have been seen before the report that its connection was accepted.
  if (is_open(descriptor) || port_of(descriptor) == port_) ::shutdown(descriptor, SHUT_RDWR);
}

std::vector<std::optional<PeerId>> LinkConnections::tick(Time now) {
  for (const ProvingPlaces::Id id : places_.older_than(now - options_.silence_max)) {
    hang_up_on(static_cast<int>(id));
    places_.leave(id);
  }
  return hang_up_on_endless();
}

std::vector<std::optional<PeerId>> LinkConnections::hang_up_on_endless() {
  std::uint64_t in_all = 0;
  std::vector<std::pair<std::uint64_t, int>> unfinished;
  for (auto entry = connections_.begin(); entry != connections_.end();) {
    auto& [descriptor, connection] = *entry;
    const std::optional<std::uint64_t> received = received_on(descriptor);
    // Another connection may have this descriptor by now.
    if (!received || identity_of(descriptor) != connection.identity) {
      places_.leave(static_cast<ProvingPlaces::Id>(descriptor));
      entry = connections_.erase(entry);
      continue;
    }
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
    hang_up_on(descriptor);
    peers.push_back(found->second.peer);
    places_.leave(static_cast<ProvingPlaces::Id>(descriptor));
    connections_.erase(found);
  }
  return peers;
}

}  // namespace gv
