// Resolves host names to numeric addresses outside the loop, one at a time.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "net/address_lookup.hpp"

namespace gv {

/// ZeroMQ looks names up on its only I/O thread, so one name server that does not answer would hold
/// up all links. Therefore ZeroMQ gets numeric addresses from here. A slow name delays only other
/// names. All calls must come from the thread of `io`.
class NameLookup {
 public:
  /// Most names that wait. The caller must ask again for further names.
  static constexpr std::size_t waiting_max = 64;
  static constexpr std::size_t known_max = 256;
  static constexpr auto known_for = std::chrono::minutes(1);

  explicit NameLookup(asio::io_context& io,
                      AddressLookup::Resolve resolve = AddressLookup::ask_system)
      : lookup_(io, std::move(resolve)) {}

  /// Returns the "host:port" to dial. This is `address` itself if its host is numeric or invalid; a
  /// name is replaced by its first IPv4 address. Returns nullopt while a name is unknown; the
  /// caller should ask again later.
  std::optional<std::string> numeric(const std::string& address);

 private:
  using Clock = std::chrono::steady_clock;
  struct Known {
    std::string host;
    Clock::time_point until;
  };

  std::map<std::string, Known> known_;
  std::set<std::string> waiting_;
  std::shared_ptr<int> asker_ = std::make_shared<int>(0);  ///< Asks for as long as we exist.
  AddressLookup lookup_;
};

}  // namespace gv
