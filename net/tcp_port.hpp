// Opens the TCP ports on which a peer listens.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cstdint>
#include <string>

namespace gv {

/// Listens at a numeric address, at a host name with an IPv4 address, or at "*" for all IPv4
/// interfaces; "::" includes IPv4. Port 0 means any free port. The system holds back silent
/// connections for a second, so a dialler has to send first. The socket does not block. Throws
/// PortTaken if another program has the port, and std::runtime_error if listening fails for any
/// other reason. Error messages begin with `option`, as the operator wrote it, and end with
/// `remedy`, which says how to correct it.
asio::ip::tcp::acceptor open_tcp_port(asio::io_context& io, const std::string& host,
                                      std::uint16_t port, const std::string& option,
                                      const std::string& remedy);

}  // namespace gv
