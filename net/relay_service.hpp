// Relays bytes between two peers that cannot reach each other, within a budget.
#pragma once

#include <array>
#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/time.hpp"
#include "net/control_links.hpp"
#include "net/lane_connection.hpp"
#include "net/lane_handshake.hpp"
#include "net/rate_limit.hpp"

namespace gv {

/// A limit on bytes per second. One second's worth may be sent at once.
class ByteBudget {
 public:
  explicit ByteBudget(double bytes_per_second) : bytes_per_second_(bytes_per_second) {}

  /// Counts sent bytes, and returns how long to wait before sending more.
  Duration charge(Time now, std::size_t bytes);

 private:
  double bytes_per_second_;
  Time paid_until_{};  ///< The time from which the bytes sent so far are within the budget.
};

/// The lane number by which one end of a relayed stream proves itself to the relay.
constexpr std::uint64_t relay_lane(std::uint64_t stream, PeerId self, PeerId other) {
  return stream ^ (self < other ? 1U : 2U);
}

/// Makes streams between two peers at the request of one of them. Offers tell both ends to dial
/// this peer, and each end must prove that it has received its offer. The bytes are copied without
/// being inspected. All calls must come from the thread of `io`.
class RelayService {
 public:
  struct Options {
    std::size_t streams_max = 64;
    std::size_t streams_of_peer_max = 8;  ///< Most streams that exist at the request of one peer.
    /// Limit on a peer's requests. Each request causes a message to another peer.
    RateLimit::Options asks{.per_second = 4, .burst = 32};
    double pair_bytes_per_second = 8 << 20;
    double bytes_per_second = 32 << 20;           ///< Bytes per second for all pairs together.
    Duration patience = std::chrono::seconds(5);  ///< Time limit for both ends to dial.
    Duration idle_close = std::chrono::seconds(90);
  };
  using Send = std::function<bool(PeerId, const RelayStep&)>;

  /// `doors` must outlive this object. If it does not listen, nothing is relayed.
  RelayService(asio::io_context& io, Options options, LaneHandshake& doors, Send send);
  ~RelayService();

  /// Call when the peer `from` asks for a stream to `other`. Ends an earlier stream between the
  /// two, unless that stream still waits for its ends and was requested by `other`.
  void asked(PeerId from, PeerId other);

  /// Call when the peer `from` refuses its stream to `other`.
  void refused(PeerId from, PeerId other);

  /// Returns true if the proved connection is an end of a stream. The stream then owns the
  /// connection.
  bool accepted(const LaneHandshake::Proved& proved, const ConnectionPtr& connection);

  /// Ends all streams of `peer`, which may no longer use this relay.
  void forget(PeerId peer);
  /// Ends idle streams. Call periodically.
  void tidy_up();

  struct Counters {
    std::size_t streams = 0;  ///< Open streams.
    std::uint64_t bytes = 0;  ///< Bytes relayed so far.
  };
  Counters counters() const;

 private:
  using Clock = LaneConnection::Clock;
  using Pair = std::pair<PeerId, PeerId>;  ///< Two peers, the smaller id first.
  struct Stream;
  using StreamPtr = std::shared_ptr<Stream>;

  void pump(const StreamPtr& stream, std::size_t from);
  void pass_on(const StreamPtr& stream, std::size_t from, std::size_t bytes);
  void end(const StreamPtr& stream);

  asio::io_context& io_;
  Options options_;
  LaneHandshake& doors_;
  Send send_;
  std::map<Pair, StreamPtr> streams_;
  std::map<PeerId, RateLimit> asks_;
  ByteBudget budget_;
  std::uint64_t bytes_ = 0;
  /// Handlers hold a weak pointer to this. Once it has expired, the objects that they use are gone.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace gv
