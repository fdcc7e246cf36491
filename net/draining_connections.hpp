// Connections that were given up, kept until no peer reads memory shared over them.
#pragma once

#include <cstddef>
#include <memory>
#include <set>

#include "net/lane_connection.hpp"

namespace gv {

/// A partner may read our shared memory until it knows that the lane has ended, which a stopped
/// process learns late. Until it has closed its side, that memory must not be reused. So we close
/// our side only when we hold nothing of the partner's any more. All calls on the loop's thread.
class DrainingConnections {
 public:
  DrainingConnections() = default;
  /// Closes all connections; their shared memory may then be reused.
  ~DrainingConnections();
  DrainingConnections(const DrainingConnections&) = delete;
  DrainingConnections& operator=(const DrainingConnections&) = delete;

  /// Takes over a connection that is given up. If a read is under way, read_ended() must follow.
  void add(const ConnectionPtr& connection);
  /// Its read has ended; `partner_ended` says how. Harmless for a connection that is not here.
  void read_ended(const ConnectionPtr& connection);
  /// Connections with that peer that are kept.
  std::size_t count(PeerId peer) const;
  /// Call now and then: closes connections of no more use.
  void tidy_up();

  /// Closes a connection regardless of shared memory, since its owner goes.
  static void drop(LaneConnection& connection);

 private:
  void wind_up(const ConnectionPtr& connection);
  void await_end(const ConnectionPtr& connection);

  std::set<ConnectionPtr> connections_;
  /// Handlers hold this weakly.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace gv
