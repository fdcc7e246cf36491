// Resolves host names to numeric addresses outside the loop, one at a time.
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

/// ZeroMQ looks names up on its only I/O thread, so one name server that does not answer would hold
/// up all links. Therefore ZeroMQ gets numeric addresses from here. A slow name delays only other
/// names, including those of lanes. All calls must come from the thread of `io`.
class NameLookup {
 public:
  /// Most names that wait. The caller must ask again for further names.
  static constexpr std::size_t waiting_max = 64;
  static constexpr std::size_t known_max = 256;
  static constexpr auto known_for = std::chrono::minutes(1);

  explicit NameLookup(asio::io_context& io) : io_(io) {}

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

  void look_up_next();

  asio::io_context& io_;
  std::map<std::string, Known> known_;
  std::deque<std::string> waiting_;  ///< The first one is being looked up while `resolver_` is set.
  std::shared_ptr<asio::ip::tcp::resolver> resolver_;
  /// Handlers hold a weak pointer to this. Once it has expired, the objects that they use are gone.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace gv
