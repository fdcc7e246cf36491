// The addresses where the peers of a launched run listen, that they advertise, and that they dial
// from.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace gv {

/// A TCP port of one address, reserved as long as this lives. It is bound and never listened on, so
/// that a child may listen on it (with SO_REUSEADDR, as ZeroMQ and our lanes do), also after it was
/// killed and restarted, and the kernel gives it to no other program in between.
class ReservedPort {
 public:
  /// Throws std::system_error when the address is not of this machine.
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
  /// Ports for a peer that can be killed and started again. Behind a proxy peer k listens at, and
  /// dials from, its own 127.1.a.b, and advertises 127.2.a.b, where the proxy is; otherwise it
  /// listens at 127.0.0.1 and advertises just that.
  PeerAddresses(asio::io_context& io, std::size_t number, bool behind_proxy);

  /// The arguments for `grapevine peer`.
  std::vector<std::string> arguments() const;
  std::string advertised() const;

  const asio::ip::address& own() const { return own_; }
  /// Pairs of the proxy's endpoint and the peer's: for control links, then for bulk lanes.
  std::vector<std::pair<asio::ip::tcp::endpoint, asio::ip::tcp::endpoint>> forwards() const;

 private:
  bool behind_proxy_;
  asio::ip::address own_;
  asio::ip::address front_;
  ReservedPort control_;
  ReservedPort lanes_;
};

}  // namespace gv
