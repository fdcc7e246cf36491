// Watches the TCP connections under ZeroMQ's sockets, and ends connections that exceed limits.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>
#include <zmq.hpp>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "net/proving_places.hpp"

namespace gv {

/// ZeroMQ delivers a message when its last part has arrived. Until then it keeps all parts, without
/// any bound, and reports none. So we read the system's count of each connection's bytes, which
/// shows how many came since the last message. ZeroMQ also accepts any number of connections. So
/// those without a first message share a bounded number of places, and each key has a limit.
class LinkConnections {
 public:
  struct Options {
    /// Limit for one connection since its last message. ZeroMQ queues at most 16 MiB of whole
    /// messages, and the system some MiB more.
    std::uint64_t bytes_max = std::uint64_t{32} << 20;
    std::uint64_t bytes_max_in_all = std::uint64_t{128} << 20;
    std::size_t per_peer_max = 8;  ///< Beyond it, the connection with the oldest last message is
                                   ///< ended.
    Duration silence_max = std::chrono::seconds(10);  ///< Time for the first message.
    ProvingPlaces::Options places;                    ///< For connections without a first message.
  };

  explicit LinkConnections(Options options) : options_(options), places_(options.places) {}

  /// Connections are accepted at this port. Call before opened().
  void listens_at(std::uint16_t port) { port_ = port; }
  /// A connection was accepted; `descriptor` is ZeroMQ's. The call may come late: no effect if the
  /// connection has ended.
  void opened(int descriptor, Time now);
  /// A whole message of `peer` has arrived.
  void heard(const zmq::message_t& message, PeerId peer);
  /// Ends the connection on which a message came.
  void hang_up(const zmq::message_t& message);

  /// Call periodically. Ends connections whose first message is overdue, and those with too many
  /// bytes since their last message. Forgets closed ones. Returns the peers of the connections with
  /// too many bytes; nullopt for those without a message.
  std::vector<std::optional<PeerId>> tick(Time now);

  std::size_t size() const { return connections_.size(); }

 private:
  struct Connection {
    std::uint64_t identity = 0;  ///< Another connection may get the descriptor, but not this.
    std::optional<PeerId> peer;
    std::uint64_t received_before = 0;  ///< All bytes up to the last message or soon after.
    std::uint64_t unfinished = 0;       ///< Bytes since that message.
    std::uint64_t heard_at = 0;         ///< Number of its last message among all messages; 0: none.
    bool was_heard = false;             ///< True if a message came since the last tick.
  };
  using Connections = std::map<int, Connection>;

  bool is_open(int descriptor) const;
  void hang_up_on(int descriptor) const;
  void limit(PeerId peer);
  std::vector<std::optional<PeerId>> hang_up_on_endless();

  Options options_;
  Connections connections_;
  ProvingPlaces places_;
  std::uint16_t port_ = 0;
  std::uint64_t messages_ = 0;
};

}  // namespace gv
