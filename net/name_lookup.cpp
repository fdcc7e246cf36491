// Remembers the addresses of names for a while, and which names are being looked up.
#include "net/name_lookup.hpp"

#include <asio/ip/address.hpp>

#include "net/host_address.hpp"
#include "net/identity.hpp"

namespace gv {

std::optional<std::string> NameLookup::numeric(const std::string& address) {
  const std::string host = host_of(address);
  asio::error_code no_number;
  static_cast<void>(asio::ip::make_address(host, no_number));
  if (!no_number || !is_address(address)) return address;
  const auto now = Clock::now();
  std::erase_if(known_, [now](const auto& entry) { return now > entry.second.until; });
  const auto found = known_.find(host);
  if (found != known_.end()) return found->second.host + address.substr(address.rfind(':'));
  if (waiting_.size() < waiting_max && waiting_.insert(host).second) {
    lookup_.look_up({.host = host, .port = "", .only_ipv4 = true}, asker_,
                    [this, host](const AddressLookup::Addresses& found) {
                      // A name without an address is forgotten, so that the next request for it
                      // begins another lookup.
                      waiting_.erase(host);
                      if (found.empty() || known_.size() >= known_max) return;
                      known_[host] = {.host = found.begin()->endpoint().address().to_string(),
                                      .until = Clock::now() + known_for};
                    });
  }
  return std::nullopt;
}

}  // namespace gv
