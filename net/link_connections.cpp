// Reads the system's count of the bytes received on each connection.
#include "net/link_connections.hpp"

#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <utility>

#include "net/connection_source.hpp"

namespace gv {
namespace {

/// Returns the system's unique number for the socket of this descriptor; 0 if there is none.
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

/// Asks getsockname or getpeername for the address of one end of a connection; nullopt if the
/// descriptor has none.
template <class Ask>
std::optional<::sockaddr_storage> address_of(int descriptor, Ask ask) {
  ::sockaddr_storage address{};
  ::socklen_t length = sizeof address;
  if (ask(descriptor, reinterpret_cast<::sockaddr*>(&address), &length) != 0) return std::nullopt;
  return address;
}

/// Returns the port of an address; nullopt if it has none.
std::optional<std::uint16_t> port_of(const ::sockaddr_storage& address) {
  if (address.ss_family == AF_INET) {
    return ntohs(reinterpret_cast<const ::sockaddr_in&>(address).sin_port);
  }
  if (address.ss_family == AF_INET6) {
    return ntohs(reinterpret_cast<const ::sockaddr_in6&>(address).sin6_port);
  }
  return std::nullopt;
}

/// Returns our own port of a TCP connection; nullopt if the descriptor has no such connection.
std::optional<std::uint16_t> own_port(int descriptor) {
  const auto address = address_of(descriptor, ::getsockname);
  return address ? port_of(*address) : std::nullopt;
}

/// Returns the other end's port of a TCP connection; nullopt if the descriptor has none.
std::optional<std::uint16_t> other_port(int descriptor) {
  const auto address = address_of(descriptor, ::getpeername);
  return address ? port_of(*address) : std::nullopt;
}

/// Returns the numeric address of a connection's other end, in the form in which ZeroMQ attaches it
/// to messages; empty if the descriptor has no connection.
std::string host_of_descriptor(int descriptor) {
  const auto address = address_of(descriptor, ::getpeername);
  std::array<char, NI_MAXHOST> host{};
  if (!address || ::getnameinfo(reinterpret_cast<const ::sockaddr*>(&*address), sizeof *address,
                                host.data(), host.size(), nullptr, 0, NI_NUMERICHOST) != 0) {
    return {};
  }
  return host.data();
}

/// True if the message came from this address.
bool came_from(const zmq::message_t& message, const std::string& host) {
  const char* from = ::zmq_msg_gets(message.handle(), "Peer-Address");
  return from != nullptr && !host.empty() && host == from;
}

}  // namespace

LinkConnections::~LinkConnections() {
  for (const auto& entry : connections_) hang_up_on(entry.first);
}

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
  if (own_port(descriptor) != port_) return;
  const std::uint64_t identity = identity_of(descriptor);
  const auto known = connections_.find(descriptor);
  // The first message may have been seen before this report that the connection was accepted.
  if (known != connections_.end() && known->second.identity == identity && known->second.peer) {
    return;
  }
  connections_[descriptor] = {.identity = identity, .host = host_of_descriptor(descriptor)};
  const auto id = static_cast<ProvingPlaces::Id>(descriptor);
  const auto source = address_of(descriptor, ::getpeername);
  const auto gone = places_.enter(now, id, source ? source_of(*source) : std::string());
  if (gone) hang_up_on(static_cast<int>(*gone));
}

void LinkConnections::heard(const zmq::message_t& message, PeerId peer,
                            std::optional<std::uint16_t> dialled) {
  const int descriptor = descriptor_of(message);
  if (descriptor < 0) return;
  const std::uint64_t identity = identity_of(descriptor);
  auto known = connections_.find(descriptor);
  if (known == connections_.end() || known->second.identity != identity) {
    // Messages are also read after their connection has ended. By then another socket, such as a
    // lane's, may have the descriptor. A socket's ends never change, so they are compared only
    // once.
    const bool is_ours =
        dialled ? other_port(descriptor) == *dialled : own_port(descriptor) == port_;
    if (!is_ours) return;
    Connection fresh{
        .identity = identity, .host = host_of_descriptor(descriptor), .dialled = dialled};
    if (!came_from(message, fresh.host)) return;
    known = connections_.insert_or_assign(descriptor, std::move(fresh)).first;
  }
  Connection& connection = known->second;
  if (connection.dialled != dialled || !came_from(message, connection.host)) return;
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
  if (!came_from(message, host_of_descriptor(descriptor))) return;
  // The message may have been seen before the report that its connection was accepted.
  if (is_open(descriptor) || own_port(descriptor) == port_) ::shutdown(descriptor, SHUT_RDWR);
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
