// The parts of addresses, for IPv4 and IPv6.
#pragma once

#include <cstdint>
#include <optional>
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

/// The "port" of an address; 0 if no valid port follows its last colon.
std::uint16_t port_number_of(std::string_view address);

/// Returns the host in the form that is used before ":port". Puts a numeric IPv6 address in
/// brackets unless it already has them, and leaves any other host unchanged.
std::string bracketed(std::string_view host);

/// Like host_of(), for a host without a port or brackets.
std::string plain_host(std::string_view host);

/// True for an address that listens on all interfaces and cannot be dialled.
bool is_any_host(std::string_view address);

/// Returns the IPv6 (in brackets) or IPv4 address from which this machine sends packets to `host`.
/// If `host` is empty or there is no route to it, returns the address used towards distant hosts.
/// If there is no route to those either, returns the first address of an interface other than
/// loopback, or the loopback address if no other interface is up. Returns nullopt if the other
/// interfaces have no such address. May block, because it looks up names.
std::optional<std::string> own_address_towards(const std::string& host, bool is_v6);

}  // namespace gv
