// Opens TCP ports. Sets options before the socket listens, because connections inherit them.
#include "net/tcp_port.hpp"

#include <fcntl.h>
#include <netinet/tcp.h>

#include <asio/ip/v6_only.hpp>
#include <stdexcept>

#include "net/host_address.hpp"

namespace gv {
namespace {

using asio::ip::tcp;

constexpr int silent_s = 1;

tcp::endpoint endpoint_at(asio::io_context& io, const std::string& host, std::uint16_t port) {
  // The resolver would turn "*" into ::1, but names count as IPv4 when they are dialled.
  const std::string numeric = host == "*" ? "0.0.0.0" : host;
  asio::error_code error;
  const auto address = asio::ip::make_address(numeric, error);
  if (!error) return {address, port};
  tcp::resolver resolver(io);
  const auto found = resolver.resolve(tcp::v4(), numeric, "0", error);
  if (error || found.empty()) {
    throw std::runtime_error("--listen " + host +
                             ": no such address here; give a numeric address of this machine");
  }
  return {found.begin()->endpoint().address(), port};
}

}  // namespace

tcp::acceptor open_tcp_port(asio::io_context& io, const std::string& host, std::uint16_t port,
                            const std::string& option, const std::string& remedy) {
  const tcp::endpoint endpoint = endpoint_at(io, host, port);
  tcp::acceptor acceptor(io);
  asio::error_code error;
  acceptor.open(endpoint.protocol(), error);
  // A fixed port can be used as soon as the previous peer on it is gone.
  if (!error) acceptor.set_option(asio::socket_base::reuse_address(true), error);
  if (!error && endpoint.protocol() == tcp::v6()) {
    acceptor.set_option(asio::ip::v6_only(false), error);
  }
  if (!error) {
    ::fcntl(acceptor.native_handle(), F_SETFD, FD_CLOEXEC);
    ::setsockopt(acceptor.native_handle(), IPPROTO_TCP, TCP_DEFER_ACCEPT, &silent_s,
                 sizeof silent_s);
    acceptor.bind(endpoint, error);
  }
  if (!error) acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (!error) acceptor.non_blocking(true, error);
  if (!error) return acceptor;
  const std::string problem = option + ": cannot listen there (" + error.message() + "); " + remedy;
  if (error == asio::error::address_in_use) throw PortTaken(problem);
  throw std::runtime_error(problem);
}

}  // namespace gv
