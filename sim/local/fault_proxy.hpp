// A proxy that imposes the faults of bad networks on the connections between peers on one machine.
#pragma once

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "base/rng.hpp"
#include "sim/link_faults.hpp"

namespace gv {

/// Accepts connections in place of peers and forwards them, each direction with the latency,
/// bandwidth and faults of its ordered pair of peers. The proxy recognises the dialling peer by its
/// source address, and the other peer by the dialled address. While a fault holds a direction,
/// nothing passes, not even the end of a connection, and new connections are accepted but stay
/// silent. Afterwards everything arrives in order. The proxy holds at most `held_bytes_max` bytes
/// for each direction of a connection, and then stops reading. Make all calls on the thread of
/// `io`.
class FaultProxy {
 public:
  struct Options {
    /// Each peer's number, by the address that it dials from.
    std::map<asio::ip::address, std::size_t> sources;
    Rng rng{1};
    std::size_t held_bytes_max = std::size_t{1} << 20;
  };

  struct Counters {
    std::uint64_t connections = 0;
    std::uint64_t refused = 0;  ///< Connections from an address that belongs to no peer.
    /// Connections that ended with a reset, while a direction was held, or after a damaged byte.
    std::uint64_t broken = 0;
    std::uint64_t bytes = 0;       ///< Bytes forwarded.
    std::uint64_t bytes_held = 0;  ///< Bytes that had to wait for the end of a fault.
    /// Numbers of segments that suffered each fault.
    std::uint64_t lost = 0, duplicated = 0, reordered = 0, corrupted = 0;
  };

  /// Returns the current state of the direction from one peer to another.
  using StateOf = std::function<LinkState(std::size_t from, std::size_t to)>;

  FaultProxy(asio::io_context& io, Options options, StateOf state_of);
  ~FaultProxy();

  /// Listens at `front` in place of peer `to`, which listens at `back`. If the port of `front` is
  /// 0, the system chooses one. Returns the port. Throws std::system_error on failure.
  std::uint16_t forward(std::size_t to, const asio::ip::tcp::endpoint& front,
                        const asio::ip::tcp::endpoint& back);

  /// Queries all link states again. Must be called when they have changed.
  void refresh();

  const Counters& counters() const;
  std::size_t open_connections() const;
  /// Bytes that the proxy holds now, over all connections.
  std::size_t bytes_waiting() const;

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace gv
