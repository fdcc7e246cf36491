// The addresses of a launched run's peers: where they listen, what they advertise, where they dial
// from.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "peer/host/peer_arguments.hpp"

namespace gv {

/// A TCP port at one address, reserved during this object's lifetime. This process binds it but
/// never listens. So a child can listen on it (with SO_REUSEADDR, as ZeroMQ and our lanes do), even
/// after a kill and restart, and the kernel gives it to no other program.
class ReservedPort {
 public:
  /// Throws std::system_error if this machine does not have the address.
  ReservedPort(asio::io_context& io, const asio::ip::address& address);
  std::uint16_t port() const { return port_; }

 private:
  asio::ip::tcp::socket socket_;
  std::uint16_t port_;
};

/// One peer's addresses. Linux routes all of 127/8 to the loopback interface, so every peer can
/// have its own addresses on one machine.
class PeerAddresses {
 public:
  /// Reserves ports for a peer that can be killed and restarted. Behind a proxy, peer k listens at
  /// its own address 127.1.a.b and dials from there. It advertises 127.2.a.b, where the proxy
  /// listens. Without a proxy, it listens at 127.0.0.1 and advertises that address.
  PeerAddresses(asio::io_context& io, std::size_t number, bool behind_proxy);

  /// Sets the peer's arguments for addresses and lanes.
  void set(PeerArguments& arguments) const;
  std::string advertised() const;

  const asio::ip::address& own() const { return own_; }
  /// Pairs of a proxy endpoint and the peer's endpoint behind it: first for control links, then for
  /// lanes.
  std::vector<std::pair<asio::ip::tcp::endpoint, asio::ip::tcp::endpoint>> forwards() const;

 private:
  bool behind_proxy_;
  asio::ip::address own_;
  asio::ip::address front_;
  ReservedPort control_;
  ReservedPort lanes_;
};

}  // namespace gv
