// Abandoned connections, kept until no peer reads memory shared over them.
#pragma once

#include <cstddef>
#include <memory>
#include <set>

#include "net/lane_connection.hpp"

namespace gv {

/// A partner may read our shared memory until it learns that the lane has ended, which takes long
/// if the partner's process is stopped. We reuse that memory only after the partner has closed its
/// side. In return, we close our side only once we hold none of the partner's memory. All calls
/// must come from the loop's thread.
class DrainingConnections {
 public:
  DrainingConnections() = default;
  /// Closes all connections; their shared memory may then be reused.
  ~DrainingConnections();
  DrainingConnections(const DrainingConnections&) = delete;
  DrainingConnections& operator=(const DrainingConnections&) = delete;

  /// Takes over an abandoned connection. If a read is under way, read_ended() must follow.
  void add(const ConnectionPtr& connection);
  /// Call when the connection's read has ended. Ignores connections that are not kept here.
  void read_ended(const ConnectionPtr& connection);
  /// Number of connections kept with `peer`.
  std::size_t count(PeerId peer) const;
  /// Closes connections that are no longer needed. Call periodically.
  void tidy_up();

  /// Closes a connection regardless of shared memory, because its owner is being destroyed.
  static void drop(LaneConnection& connection);

 private:
  void wind_up(const ConnectionPtr& connection);
  void await_end(const ConnectionPtr& connection);

  std::set<ConnectionPtr> connections_;
  /// Handlers hold a weak pointer to this.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace gv
