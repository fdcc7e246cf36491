// One connection of a bulk lane: a socket, with TLS on it or with shared memory beside it.
#pragma once

#include <array>
#include <asio/generic/stream_protocol.hpp>
#include <asio/ssl.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "consensus/message/effects.hpp"
#include "net/lane_record.hpp"
#include "net/record_reader.hpp"
#include "net/shared_buffer.hpp"
#include "net/shared_ring.hpp"

namespace gv {

/// The most block records in one write: enough for all slots of a ring.
inline constexpr std::size_t records_at_once = 16;
static_assert(records_at_once >= ring_slots);

/// Makes a write continue until it is complete; by default, Asio cuts it into pieces of 64 KiB.
/// Records when bytes leave, because a complete write takes long on a slow network.
struct WithoutLimit {
  /// The time to update; valid until the write ends.
  std::chrono::steady_clock::time_point* moved;

  std::size_t operator()(const asio::error_code& error, std::size_t written) const {
    if (error) return 0;
    if (written > 0) *moved = std::chrono::steady_clock::now();
    return std::numeric_limits<std::size_t>::max();
  }
};

/// Makes a TCP socket start without pacing. Call before it listens or connects: a socket that was
/// connected with pacing keeps it forever. Within one host, there is no queue on the way that
/// pacing could shorten. A congestion control that paces, such as bbr, sets a timer for every 64
/// KiB. In a measurement, these timers took a third of the time of a sum by eight peers.
void begin_unpaced(int socket);

struct LaneConnection {
  using Clock = std::chrono::steady_clock;
  using Socket = asio::generic::stream_protocol::socket;

  explicit LaneConnection(Socket connected) : socket(std::move(connected)) {}

  Socket socket;
  PeerId peer{};  ///< The peer at the other end, set when the lane opens.
  std::optional<asio::ssl::stream<Socket&>> tls;
  std::optional<RingWriter> ring_out;  ///< Our ring. Like `ring_in`, set on Unix sockets only.
  std::optional<RingReader> ring_in;
  std::optional<BorrowedBuffer> borrowed;  ///< The partner's shared buffer.
  /// Our blocks that the partner may still read, in the order of sending.
  std::deque<Payload> lent;
  /// A block in the partner's shared buffer that we have not reported as read.
  struct Loan {
    std::weak_ptr<const void> held;  ///< Expires when the block is no longer in use.
    std::size_t bytes = 0;
  };
  std::deque<Loan> holds;
  bool partner_ended = false;
  std::string kind;  ///< Reported to the operator: "tls", "plain" or "unix".
  Clock::time_point began = Clock::now();
  /// When the current write began, or when bytes of it last left.
  Clock::time_point moved = began;

  // Memory of reads and writes under way. The connection owns it, because they may outlive the
  // lane.
  std::array<std::byte, (2 + records_at_once) * (sizeof(RecordHeader) + sizeof(LentPlace))> out;
  std::size_t out_bytes = 0;  ///< Bytes used of `out`: headers, and short contents.
  bool reading = false;
  std::vector<asio::const_buffer> out_buffers;
  std::vector<Payload> out_owners;
  std::vector<std::byte> out_message;
  RecordReader reader;
  std::array<std::byte, 4096> ignored;  ///< Receives bytes that are discarded after the lane's end.

  /// Turns off Nagle's algorithm and sets the buffer sizes. Within one host, buffers fit into the
  /// processors' caches. Between hosts, the system sizes them for the link, and its usual
  /// congestion control replaces that of begin_unpaced().
  void tune();

  /// Appends `part` to `out`, and returns a view of it there.
  template <class Part>
  asio::const_buffer say(const Part& part) {
    std::memcpy(out.data() + out_bytes, &part, sizeof part);
    out_bytes += sizeof part;
    return asio::buffer(out.data() + (out_bytes - sizeof part), sizeof part);
  }

  /// Without TLS, writes at once as much of `out_buffers` as the system accepts, and leaves the
  /// rest. Returns the number of bytes written. An asynchronous write would complete in a later
  /// turn of the loop and delay the writes after it: a peer that handles many blocks in one turn
  /// would keep others waiting even for the first block.
  std::size_t write_now();

  template <class Buffers, class Handler>
  void write(const Buffers& buffers, Handler handler) {
    moved = Clock::now();
    if (tls) {
      asio::async_write(*tls, buffers, WithoutLimit{&moved}, std::move(handler));
    } else {
      asio::async_write(socket, buffers, WithoutLimit{&moved}, std::move(handler));
    }
  }
  /// Reads the bytes that have arrived, after waiting for at least one.
  template <class Handler>
  void read_some(std::span<std::byte> into, Handler handler) {
    const asio::mutable_buffer room(into.data(), into.size());
    if (tls) {
      tls->async_read_some(room, std::move(handler));
    } else {
      socket.async_read_some(room, std::move(handler));
    }
  }
  /// Ends the connection, even if children made by fork() have copies of its descriptor.
  void close() {
    asio::error_code ignored;
    socket.shutdown(Socket::shutdown_both, ignored);
    socket.close(ignored);
  }
};
using ConnectionPtr = std::shared_ptr<LaneConnection>;

}  // namespace gv
