// Reads and writes numeric addresses with Asio, and finds those of this machine.
#include "net/host_address.hpp"

#include <ifaddrs.h>
#include <net/if.h>

#include <asio/io_context.hpp>
#include <asio/ip/address.hpp>
#include <asio/ip/udp.hpp>
#include <charconv>
#include <cstring>
#include <memory>
#include <system_error>

namespace gv {
namespace {

/// Addresses to which no packet is ever sent. They only serve to find out which source address the
/// system would use.
constexpr const char* far_away = "192.0.2.1";
constexpr const char* far_away_v6 = "2001:db8::1";

/// Returns the first IPv6 (if `is_v6`) or IPv4 address of an interface that is up, ignoring the
/// loopback interface. Returns the loopback address if no other interface is up, and nullopt if the
/// other interfaces have no such address.
std::optional<std::string> address_of_interface(bool is_v6) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return std::nullopt;
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, &::freeifaddrs);
  bool is_alone = true;
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    constexpr unsigned up = IFF_UP | IFF_RUNNING;
    if ((one->ifa_flags & up) != up || (one->ifa_flags & IFF_LOOPBACK) != 0) continue;
    is_alone = false;
    if (one->ifa_addr == nullptr || one->ifa_addr->sa_family != (is_v6 ? AF_INET6 : AF_INET)) {
      continue;
    }
    asio::ip::udp::endpoint found(is_v6 ? asio::ip::udp::v6() : asio::ip::udp::v4(), 0);
    std::memcpy(found.data(), one->ifa_addr, found.size());
    // A link-local address needs the name of an interface, which differs on each machine.
    if (is_v6 && found.address().to_v6().is_link_local()) continue;
    return bracketed(found.address().to_string());
  }
  return is_alone ? std::optional<std::string>(is_v6 ? "[::1]" : "127.0.0.1") : std::nullopt;
}

}  // namespace

std::string plain_host(std::string_view host) {
  asio::error_code error;
  const auto address = asio::ip::make_address(host, error);
  if (error) return std::string(host);
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  }
  return address.to_string();
}

std::string host_of(std::string_view address) {
  std::string_view host = address.substr(0, address.rfind(':'));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  return plain_host(host);
}

std::uint16_t port_number_of(std::string_view address) {
  const auto colon = address.rfind(':');
  if (colon == std::string_view::npos) return 0;
  const char* const end = address.data() + address.size();
  std::uint16_t port = 0;
  const auto read = std::from_chars(address.data() + colon + 1, end, port);
  return read.ec == std::errc() && read.ptr == end ? port : std::uint16_t{0};
}

std::string bracketed(std::string_view host) {
  const bool is_bare = host.find(':') != std::string_view::npos && !host.starts_with('[');
  return is_bare ? "[" + std::string(host) + "]" : std::string(host);
}

bool is_any_host(std::string_view address) {
  const std::string host = host_of(address);
  return host == "0.0.0.0" || host == "::" || host == "*";
}

std::optional<std::string> own_address_towards(const std::string& host, bool is_v6) {
  using asio::ip::udp;
  asio::io_context io;
  for (const std::string& there : {host, std::string(is_v6 ? far_away_v6 : far_away)}) {
    if (there.empty()) continue;
    asio::error_code error;
    const udp kind = is_v6 ? udp::v6() : udp::v4();
    const auto found = udp::resolver(io).resolve(kind, there, "9", error);
    if (error || found.empty()) continue;
    udp::socket socket(io);
    socket.connect(found.begin()->endpoint(), error);
    if (error) continue;
    const std::string address = socket.local_endpoint(error).address().to_string();
    if (!error) return bracketed(address);
  }
  return address_of_interface(is_v6);
}

}  // namespace gv
