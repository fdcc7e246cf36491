// Makes loopback addresses from numbers, and reserves ports.
#include "sim/local/addresses.hpp"

#include <fmt/format.h>

namespace gv {
namespace {

using asio::ip::tcp;

/// Address number `number` in the sequence 127.NET.0.1, 127.NET.0.2, ... The last byte is never 0
/// or 255.
asio::ip::address loopback(int net, std::size_t number) {
  return asio::ip::make_address(fmt::format("127.{}.{}.{}", net, number / 254, number % 254 + 1));
}

}  // namespace

ReservedPort::ReservedPort(asio::io_context& io, const asio::ip::address& address) : socket_(io) {
  const tcp::endpoint any(address, 0);
  socket_.open(any.protocol());
  socket_.set_option(asio::socket_base::reuse_address(true));
  socket_.bind(any);
  port_ = socket_.local_endpoint().port();
}

PeerAddresses::PeerAddresses(asio::io_context& io, std::size_t number, bool behind_proxy)
    : behind_proxy_(behind_proxy),
      own_(behind_proxy ? loopback(1, number) : asio::ip::make_address("127.0.0.1")),
      front_(behind_proxy ? loopback(2, number) : own_),
      control_(io, own_),
      lanes_(io, own_) {}

void PeerAddresses::set(PeerArguments& arguments) const {
  arguments.host.listen = fmt::format("{}:{}", own_.to_string(), control_.port());
  arguments.host.lane_port = lanes_.port();
  if (!behind_proxy_) return;
  arguments.host.advertise = advertised();
  arguments.host.dial_from = own_.to_string();
  arguments.lane = "tls";  // A Unix socket would bypass the proxy.
}

std::string PeerAddresses::advertised() const {
  return fmt::format("{}:{}", front_.to_string(), control_.port());
}

std::vector<std::pair<tcp::endpoint, tcp::endpoint>> PeerAddresses::forwards() const {
  std::vector<std::pair<tcp::endpoint, tcp::endpoint>> list;
  for (const std::uint16_t port : {control_.port(), lanes_.port()}) {
    list.emplace_back(tcp::endpoint(front_, port), tcp::endpoint(own_, port));
  }
  return list;
}

}  // namespace gv
