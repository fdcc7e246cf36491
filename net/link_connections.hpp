// Watches the TCP connections under ZeroMQ's sockets, and ends connections that exceed limits.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "base/ids.hpp"
#include "base/time.hpp"
#include "net/proving_places.hpp"

namespace gv {

/// ZeroMQ delivers a message when its last part has arrived. Until then it keeps all parts, without
/// any bound, and reports none. So we read the system's count of each connection's bytes, which
/// shows how many bytes came since the last message. ZeroMQ also accepts any number of connections.
/// So connections without a first message share a bounded number of places, and the number of
/// connections for each key is limited.
class LinkConnections {
 public:
  struct Options {
    /// The most bytes that one connection may receive without completing a message. ZeroMQ queues
    /// at most 16 MiB of complete messages, and the system some MiB more.
    std::uint64_t bytes_max = std::uint64_t{32} << 20;
    std::uint64_t bytes_max_in_all = std::uint64_t{128} << 20;
    /// The most connections of one peer. Above this number, the one that has been silent longest is
    /// ended.
    std::size_t per_peer_max = 8;
    Duration silence_max = std::chrono::seconds(10);  ///< Time for the first message.
    ProvingPlaces::Options places;                    ///< For connections without a first message.
  };

  explicit LinkConnections(Options options) : options_(options), places_(options.places) {}
  /// Ends all connections, even if children made by fork() have copies of their descriptors.
  ~LinkConnections();
  LinkConnections(const LinkConnections&) = delete;
  LinkConnections& operator=(const LinkConnections&) = delete;

  /// Sets the port at which connections are accepted. Call before opened().
  void listens_at(std::uint16_t port) { port_ = port; }
  /// Call when a connection was accepted; `descriptor` belongs to ZeroMQ. A late call has no effect
  /// if the connection has ended.
  void opened(int descriptor, Time now);
  /// Call when a complete message of `peer` has arrived. `dialled` is the port to which the
  /// message's connection was dialled; nullopt if the connection was accepted. Has no effect if the
  /// connection has ended and another socket has its descriptor.
  void heard(const zmq::message_t& message, PeerId peer,
             std::optional<std::uint16_t> dialled = std::nullopt);
  /// Ends the connection on which a message came, unless it has ended already.
  void hang_up(const zmq::message_t& message);

  /// Call periodically. Ends connections whose first message is overdue, and those with too many
  /// bytes since their last message. Forgets closed ones. Returns the peer of each connection with
  /// too many bytes, or nullopt for one that never sent a message.
  std::vector<std::optional<PeerId>> tick(Time now);

  std::size_t size() const { return connections_.size(); }

 private:
  struct Connection {
    std::uint64_t identity = 0;  ///< Distinguishes connections that reuse a descriptor.
    std::string host;            ///< The other end's address, in ZeroMQ's form.
    /// The other end's port, if we dialled it.
    std::optional<std::uint16_t> dialled;
    std::optional<PeerId> peer;
    /// Bytes received up to the last message, or shortly after it.
    std::uint64_t received_before = 0;
    std::uint64_t unfinished = 0;  ///< Bytes received since the last message.
    /// Position of this connection's last message among all messages; 0 if there was none.
    std::uint64_t heard_at = 0;
    bool was_heard = false;  ///< True if a message came since the last tick.
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
