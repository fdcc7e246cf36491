// Accepts lane connections, with limits on their number and on the loop's time.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "net/descriptor.hpp"
#include "net/lane_connection.hpp"
#include "net/proving_places.hpp"

namespace gv {

/// One listening socket. Connections that have not proved themselves share a bounded number of
/// places (see ProvingPlaces). While a partner is expected and more connections arrive than one
/// turn accepts, accepting takes at most about a tenth of the loop's time. While no partner is
/// expected, all connections come from strangers. The system then queues only a few of them, and
/// few are accepted in a second. All calls must come from the loop's thread.
class LaneListener {
 public:
  struct Options {
    ProvingPlaces::Options places;
    Duration proof_deadline = std::chrono::seconds(3);  ///< Time from accept to proof.
  };
  using Newcomer = std::function<void(const ConnectionPtr&)>;

  /// `listening` must be bound, listening and non-blocking. No partner is expected at first.
  LaneListener(asio::io_context& io, Descriptor listening, Options options, Newcomer newcomer);
  /// Closes the port, and all connections that have not proved themselves.
  ~LaneListener();
  LaneListener(const LaneListener&) = delete;
  LaneListener& operator=(const LaneListener&) = delete;

  /// Sets whether a partner is expected. Call it before the partner can dial.
  void set_expecting(bool expecting);

  /// Call when the connection names an existing invitation. The connection then keeps its place.
  void keep(const LaneConnection& connection);
  /// Call when the connection has proved itself. From then on the caller owns it.
  void release(const ConnectionPtr& connection);
  /// Closes a connection that cannot prove itself.
  void send_away(const ConnectionPtr& connection);
  /// True if the connection has neither proved itself nor been closed.
  bool holds(const ConnectionPtr& connection) const;
  /// Returns a connection held here for which `is_it` is true, or null.
  ConnectionPtr find(const std::function<bool(LaneConnection&)>& is_it) const;

  /// Closes connections whose proof is overdue. Call periodically.
  void tidy_up();

  /// Number of connections that were closed without a proof.
  std::uint64_t refused() const { return refused_; }

 private:
  void wait();
  void wait_for(Duration pause);
  void accept_some();
  void enter(Time now, Descriptor accepted, const std::string& source, int family);
  void end(ProvingPlaces::Id id);

  static ProvingPlaces::Id id_of(const LaneConnection& connection) {
    return reinterpret_cast<ProvingPlaces::Id>(&connection);
  }

  asio::io_context& io_;
  asio::posix::stream_descriptor listening_;
  Options options_;
  Newcomer newcomer_;
  ProvingPlaces places_;
  bool is_expecting_ = false;
  std::map<ProvingPlaces::Id, ConnectionPtr> strangers_;
  asio::steady_timer pause_;
  std::uint64_t refused_ = 0;
  /// Handlers hold a weak pointer to this, which shows whether the listener still exists.
  std::shared_ptr<int> alive_ = std::make_shared<int>(0);
};

}  // namespace gv
