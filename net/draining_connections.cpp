// Keeps abandoned connections until neither end reads the other's memory any more.
#include "net/draining_connections.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace gv {

DrainingConnections::~DrainingConnections() {
  for (const ConnectionPtr& connection : connections_) drop(*connection);
}

/// Closes the connection and drops its payloads. Otherwise pending handlers could keep the payloads
/// after their memory has been freed.
void DrainingConnections::drop(LaneConnection& connection) {
  connection.close();
  connection.lent.clear();
  connection.out_owners.clear();
}

void DrainingConnections::add(const ConnectionPtr& connection) {
  connections_.insert(connection);
  wind_up(connection);
  if (!connections_.contains(connection)) return;
  if (!connection->holds.empty() && connection->out_buffers.empty()) {
    connection->out_bytes = 0;
    connection->out_buffers.push_back(
        connection->say(RecordHeader{.length = 1, .kind = RecordKind::over}));
    connection->write_now();
  }
  if (!connection->reading) await_end(connection);
}

void DrainingConnections::read_ended(const ConnectionPtr& connection) {
  if (!connections_.contains(connection)) return;
  wind_up(connection);
  if (connections_.contains(connection)) await_end(connection);
}

std::size_t DrainingConnections::count(PeerId peer) const {
  return static_cast<std::size_t>(std::ranges::count_if(
      connections_, [peer](const ConnectionPtr& each) { return each->peer == peer; }));
}

void DrainingConnections::tidy_up() {
  for (const ConnectionPtr& connection : std::vector(connections_.begin(), connections_.end())) {
    // Blocks that are still held keep the partner's buffer mapped, and nothing else needs the
    // buffer now. add() must not release the buffer, because the connection may have ended while
    // one of its blocks was being read.
    connection->borrowed.reset();
    connection->ring_in.reset();
    wind_up(connection);
  }
}

void DrainingConnections::wind_up(const ConnectionPtr& connection) {
  std::erase_if(connection->holds, [](const auto& hold) { return hold.held.expired(); });
  if (!connection->holds.empty()) return;
  if (connection->partner_ended || connection->lent.empty()) {
    connection->close();
    connection->lent.clear();
    connections_.erase(connection);
  } else {
    asio::error_code ignored;
    connection->socket.shutdown(asio::socket_base::shutdown_send, ignored);
  }
}

/// Reads and discards bytes until the partner has closed its side.
void DrainingConnections::await_end(const ConnectionPtr& connection) {
  if (connection->partner_ended) return;
  connection->reading = true;
  connection->read_some(connection->ignored, [this, connection, weak = std::weak_ptr(alive_)](
                                                 asio::error_code error, std::size_t) {
    if (weak.expired()) return;
    connection->reading = false;
    if (!error) {
      await_end(connection);
      return;
    }
    connection->partner_ended = true;
    wind_up(connection);
  });
}

}  // namespace gv
