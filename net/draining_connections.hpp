// Connections that are given up, until nobody reads memory that was lent over them.
#pragma once

#include <memory>
#include <set>

#include "net/lane_connection.hpp"

namespace gv {

/// Whoever has borrowed may read until it is told that the lane has ended, which one that stands
/// still hears late: until it has closed its side as well, nobody else may use that memory. So we
/// close ours only when nothing that we borrowed is held any more. All calls on the loop's thread.
class DrainingConnections {
 public:
  DrainingConnections() = default;
  /// Closes all; what was lent over them is the owners' again.
  ~DrainingConnections();
  DrainingConnections(const DrainingConnections&) = delete;
  DrainingConnections& operator=(const DrainingConnections&) = delete;

  /// Gives a connection up. If it is being read from, the reader says when that has ended.
  void add(const ConnectionPtr& connection);
  /// Its read has ended, and `partner_ended` says how. Harmless for a connection that is not here.
  void read_ended(const ConnectionPtr& connection);
  /// To be called now and then: closes those that are of no more use.
  void tidy_up();

  /// Closes a connection whatever was lent over it: its owner goes.
  static void drop(LaneConnection& connection);

 private:
  void wind_up(const ConnectionPtr& connection);
  void await_end(const ConnectionPtr& connection);

  std::set<ConnectionPtr> connections_;
  /// Handlers hold this weakly.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace gv
