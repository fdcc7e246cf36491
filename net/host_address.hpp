// The parts of addresses, for IPv4 and IPv6.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace gv {

/// Thrown if another program has the port that the operator named.
class PortTaken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// True for "[v6]:port". A host name counts as IPv4.
inline bool is_ipv6(std::string_view address) { return address.starts_with('['); }

/// The "host" of "host:port" or "[v6]:port". Each numeric address has exactly one text: an IPv4
/// address in IPv6 form (::ffff:192.0.2.1) is returned as IPv4.
std::string host_of(std::string_view address);

/// The "port" of an address; 0 if it has none.
std::uint16_t port_number_of(std::string_view address);

/// Like host_of(), for a host without a port or brackets.
std::string plain_host(std::string_view host);

/// True for an address that listens on all interfaces and cannot be dialled.
bool is_any_host(std::string_view address);

}  // namespace gv
