// Turns host names into numeric addresses beside the loop, one at a time.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <chrono>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>

namespace gv {

/// ZeroMQ looks names up on its only I/O thread, where all links wait for a name server that does
/// not answer. So it gets numeric addresses from here. A slow name delays only other names, which
/// include those of lanes. All calls on the thread of `io`.
class NameLookup {
 public:
  static constexpr std::size_t waiting_max = 64;  ///< Names that wait; others have to ask again.
  static constexpr std::size_t known_max = 256;
  static constexpr auto known_for = std::chrono::minutes(1);

  explicit NameLookup(asio::io_context& io) : io_(io) {}

  /// Returns the "host:port" to dial: `address` itself if its host is numeric or no host at all,
  /// and the first IPv4 address of a name. Returns nullopt while a name is not known; the caller
  /// asks again later.
  std::optional<std::string> numeric(const std::string& address);

 private:
  using Clock = std::chrono::steady_clock;
  struct Known {
    std::string host;
    Clock::time_point until;
  };

  void look_up_next();

  asio::io_context& io_;
  std::map<std::string, Known> known_;
  std::deque<std::string> waiting_;  ///< The first one is being looked up while `resolver_` is set.
  std::shared_ptr<asio::ip::tcp::resolver> resolver_;
  /// Handlers hold this weakly: when it is gone, so is everything that they would touch.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace gv
