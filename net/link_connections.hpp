// The TCP connections under ZeroMQ's sockets: what comes on them, and how they are ended.
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

/// ZeroMQ hands a message over when its last part has come. Until then it keeps all parts, bounded
/// neither in number nor together, and shows nothing of them. The system counts what a connection
/// receives; from that we know how much has come since the last message. It also accepts any number
/// of connections, so those that have not sent a message yet have places that they may lose to
/// others, and those of one key have a limit.
class LinkConnections {
 public:
  struct Options {
    /// Of one connection since its last message. ZeroMQ queues at most 16 MiB of whole messages,
    /// and the system some MiB more.
    std::uint64_t bytes_max = std::uint64_t{32} << 20;
    std::uint64_t bytes_max_in_all = std::uint64_t{128} << 20;
    std::size_t per_peer_max = 8;  ///< The one that was heard longest ago is ended for another.
    Duration silence_max = std::chrono::seconds(10);  ///< Without a first message.
    ProvingPlaces::Options places;                    ///< Of those without a first message.
  };

  explicit LinkConnections(Options options) : options_(options), places_(options.places) {}

  /// A connection was accepted; `descriptor` is ZeroMQ's.
  void opened(int descriptor, Time now);
  /// It has ended.
  void closed(int descriptor);
  /// A whole message of `peer` came over some connection.
  void heard(const zmq::message_t& message, PeerId peer);
  /// Ends the connection that a message came on.
  void hang_up(const zmq::message_t& message);

  /// Call now and then. Ends connections without a first message in time, and those on which more
  /// has come since their last message than may. Forgets those that are closed. Returns the peers
  /// at the other ends of the endless ones, as far as they have ever been heard.
  std::vector<std::optional<PeerId>> tick(Time now);

  std::size_t size() const { return connections_.size(); }

 private:
  struct Connection {
    std::string ends;  ///< Both addresses: another connection may get the descriptor.
    std::optional<PeerId> peer;
    std::uint64_t received_before = 0;  ///< All bytes, at the last message or soon after.
    std::uint64_t unfinished = 0;       ///< Bytes since then.
    std::uint64_t heard_at = 0;         ///< The number of its last message, of all; 0: none.
    bool was_heard = false;             ///< Since the last look.
  };
  using Connections = std::map<int, Connection>;

  static void hang_up_on(const Connections::value_type& entry);
  void limit(PeerId peer);
  std::vector<std::optional<PeerId>> hang_up_on_endless();

  Options options_;
  Connections connections_;
  ProvingPlaces places_;
  std::uint64_t messages_ = 0;
};

}  // namespace gv
