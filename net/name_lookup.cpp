// Asks the system's resolver through Asio, which waits for the answer on a thread.
#include "net/name_lookup.hpp"

#include <algorithm>
#include <asio/ip/address.hpp>
#include <exception>

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
  const bool is_waiting = std::ranges::find(waiting_, host) != waiting_.end();
  if (!is_waiting && waiting_.size() < waiting_max) waiting_.push_back(host);
  if (!resolver_) look_up_next();
  return std::nullopt;
}

/// Looks up the first waiting name. A name without an address is forgotten, so that the next
/// request for it begins another lookup.
void NameLookup::look_up_next() {
  if (waiting_.empty()) return;
  // A resolver starts a thread, which the system may refuse.
  try {
    resolver_ = std::make_shared<asio::ip::tcp::resolver>(io_);
    resolver_->async_resolve(
        asio::ip::tcp::v4(), waiting_.front(), "",
        [this, weak = std::weak_ptr(alive_)](asio::error_code error,
                                             const asio::ip::tcp::resolver::results_type& found) {
          if (weak.expired()) return;
          resolver_.reset();
          if (!error && !found.empty() && known_.size() < known_max) {
            known_[waiting_.front()] = {.host = found.begin()->endpoint().address().to_string(),
                                        .until = Clock::now() + known_for};
          }
          waiting_.pop_front();
          look_up_next();
        });
  } catch (const std::exception&) {
    resolver_.reset();
    waiting_.clear();
  }
}

}  // namespace gv
