// Reads and writes numeric addresses with Asio.
#include "net/host_address.hpp"

#include <asio/ip/address.hpp>
#include <charconv>

namespace gv {

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
  const std::string_view text = address.substr(address.rfind(':') + 1);
  std::uint16_t port = 0;
  std::from_chars(text.data(), text.data() + text.size(), port);
  return port;
}

bool is_any_host(std::string_view address) {
  const std::string host = host_of(address);
  return host == "0.0.0.0" || host == "::" || host == "*";
}

}  // namespace gv
