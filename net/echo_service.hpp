// A lane that echoes its input, so that its speed can be measured from the other end.
#pragma once

#include <asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "base/time.hpp"
#include "net/lane_connection.hpp"
#include "net/lane_handshake.hpp"
#include "net/relay_service.hpp"

namespace gv {

/// The most bytes that one echo returns, and the highest rate at which it returns them. Together
/// they bound the cost of a measurement.
inline constexpr std::size_t echo_bytes_max = std::size_t{32} << 20;
inline constexpr double echo_bytes_per_second = 125e6;

/// Offers one echo at a time, to the peer that holds the offer's token. Never inspects the bytes.
/// All calls must come from the thread of `io`.
class EchoService {
 public:
  struct Options {
    Duration patience = std::chrono::seconds(5);  ///< Time within which an offer must be accepted.
    Duration lasts = std::chrono::seconds(10);    ///< Time after which an echo ends.
  };

  /// `doors` must outlive this object. If it has no port, no echo is offered.
  EchoService(asio::io_context& io, Options options, LaneHandshake& doors);
  ~EchoService();

  struct Offer {
    std::uint64_t lane = 0;
    LaneToken token{};
  };
  /// Returns nullopt if no echo can be offered, for example while another one exists.
  std::optional<Offer> offer();

  /// Returns true if the proved connection has accepted the offer. The echo then owns the
  /// connection.
  bool accepted(std::uint64_t lane, const ConnectionPtr& connection);

  /// Ends an echo whose time is over. Call periodically.
  void tidy_up();

 private:
  using Clock = LaneConnection::Clock;
  struct Echo;
  using EchoPtr = std::shared_ptr<Echo>;

  void pump(const EchoPtr& echo);
  void pass_back(const EchoPtr& echo, std::size_t bytes);
  void end();

  asio::io_context& io_;
  Options options_;
  LaneHandshake& doors_;
  EchoPtr echo_;  ///< Null if there is no echo.
  /// Handlers hold a weak pointer to this. Once it has expired, the objects that they use are gone.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace gv
