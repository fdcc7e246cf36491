// Opens the TCP ports on which a peer listens.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <string>

namespace gv {

/// Listens at a numeric address, at a name of an IPv4 address, or at "*" for all interfaces of
/// IPv4; "::" includes IPv4. Port 0 is any free one. The system holds back connections that stay
/// silent, for a second, so a dialler has to send first. The socket does not block. Throws
/// PortTaken if another program has the port, and std::runtime_error for any other reason. `option`
/// is what the operator wrote, and `remedy` what to write instead.
asio::ip::tcp::acceptor open_tcp_port(asio::io_context& io, const std::string& host,
                                      std::uint16_t port, const std::string& option,
                                      const std::string& remedy);

}  // namespace gv
