// The host part of addresses, for IPv4 and IPv6.
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace gv {

/// Thrown for a port that the operator has named and another program has.
class PortTaken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// True for "[v6]:port". A host name counts as IPv4.
inline bool is_ipv6(std::string_view address) { return address.starts_with('['); }

/// The "host" of "host:port" or "[v6]:port". Each numeric address has exactly one text, and an IPv4
/// address shown as IPv6 (::ffff:192.0.2.1) has its IPv4 text.
std::string host_of(std::string_view address);

/// The same for a host without port or brackets.
std::string plain_host(std::string_view host);

/// True for an address that listens on all interfaces and cannot be dialled.
bool is_any_host(std::string_view address);

}  // namespace gv
