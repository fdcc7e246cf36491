// The TCP connections under ZeroMQ's sockets: what comes on them, and how they are ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "base/ids.hpp"

namespace gv {

/// ZeroMQ hands a message over when its last part has come. Until then it keeps all parts, bounded
/// neither in number nor together, and shows nothing of them. The system counts what a connection
/// receives; from that we know how much has come since the last message.
class LinkConnections {
 public:
  struct Options {
    /// Of one connection since its last message. ZeroMQ queues at most 16 MiB of whole messages,
    /// and the system some MiB more.
    std::uint64_t bytes_max = std::uint64_t{32} << 20;
    std::uint64_t bytes_max_in_all = std::uint64_t{128} << 20;
  };

  explicit LinkConnections(Options options) : options_(options) {}

  /// A connection was made; `descriptor` is ZeroMQ's.
  void opened(int descriptor);
  /// A whole message of `peer` came over some connection.
  void heard(const zmq::message_t& message, PeerId peer);
  /// Ends the connection that a message came on.
  void hang_up(const zmq::message_t& message);

  /// Ends the connections on which more has come since their last message than may. Forgets those
  /// that are closed. Returns the peers at their other ends, as far as they have ever been heard.
  std::vector<std::optional<PeerId>> hang_up_on_endless();

  std::size_t size() const { return connections_.size(); }

 private:
  struct Connection {
    std::string ends;  ///< Both addresses: another connection may get the descriptor.
    std::optional<PeerId> peer;
    std::uint64_t received_before = 0;  ///< All bytes, at the last message or soon after.
    std::uint64_t unfinished = 0;       ///< Bytes since then.
    bool was_heard = false;             ///< Since the last look.
  };

  Options options_;
  std::map<int, Connection> connections_;
};

}  // namespace gv
