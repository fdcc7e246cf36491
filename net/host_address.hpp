// Hosts inside addresses, of IPv4 and IPv6 alike.
#pragma once

#include <string>
#include <string_view>

namespace gv {

/// True for "[v6]:port". A host's name counts as one of IPv4.
inline bool is_ipv6(std::string_view address) { return address.starts_with('['); }

/// The "host" of "host:port" or "[v6]:port". Numeric ones have one text each, and an IPv4 address
/// that a system shows as one of IPv6 (::ffff:192.0.2.1) has that of IPv4.
std::string host_of(std::string_view address);

/// The same for a host without a port and brackets.
std::string plain_host(std::string_view host);

/// True for an address to listen on at all interfaces, which no one can dial.
bool is_any_host(std::string_view address);

}  // namespace gv
