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

/// Records with a block that one write sends together; the release of a ring's slots fits into one.
inline constexpr std::size_t records_at_once = 16;
static_assert(records_at_once >= ring_slots);

/// Lets a write go on to its end; the default would cut it into pieces of 64 KiB.
struct WithoutLimit {
  std::size_t operator()(const asio::error_code& error, std::size_t) const {
    return error ? 0 : std::numeric_limits<std::size_t>::max();
  }
};

/// Makes a TCP socket start without pacing; call before it listens or connects. Within one host
/// there is no queue on the way, and a congestion control that paces, as bbr does, sets a timer for
/// every 64 KiB: measured, a third of the time of a sum by eight peers. A socket that was connected
/// with pacing keeps it for ever.
void begin_unpaced(int socket);

struct LaneConnection {
  using Clock = std::chrono::steady_clock;
  using Socket = asio::generic::stream_protocol::socket;

  explicit LaneConnection(Socket connected) : socket(std::move(connected)) {}

  Socket socket;
  PeerId peer{};  ///< At the other end, from when the lane is open.
  std::optional<asio::ssl::stream<Socket&>> tls;
  std::optional<RingWriter> ring_out;  ///< Both or none, on a Unix socket.
  std::optional<RingReader> ring_in;
  std::optional<BorrowedBuffer> borrowed;  ///< The partner's shared buffer.
  std::deque<Payload> lent;                ///< Blocks of ours that it may still read, in order.
  /// Blocks in its shared buffer that we have not reported as done, in order of arrival.
  struct Loan {
    std::weak_ptr<const void> held;  ///< Alive while the block is in use.
    std::size_t bytes = 0;
  };
  std::deque<Loan> holds;
  bool partner_ended = false;
  std::string kind;  ///< For people: "tls", "plain" or "unix".
  Clock::time_point began = Clock::now();

  // Memory of reads and writes under way is here, since the lane may be gone before the system is
  // done.
  std::array<std::byte, (2 + records_at_once) * (sizeof(RecordHeader) + sizeof(LentPlace))> out;
  std::size_t out_bytes = 0;  ///< Bytes used of `out`: headers, and short contents.
  bool reading = false;
  std::vector<asio::const_buffer> out_buffers;
  std::vector<Payload> out_owners;
  std::vector<std::byte> out_message;
  RecordReader reader;
  std::array<std::byte, 4096> ignored;  ///< Bytes that come after its end.

  /// Makes TCP send at once, with useful buffer sizes: within one host what stays in the
  /// processors' caches, between hosts what the system finds that the link holds. Between hosts it
  /// also returns to the system's congestion control: see begin_unpaced().
  void tune();

  /// Appends to `out`, and returns where it lies there.
  template <class Part>
  asio::const_buffer say(const Part& part) {
    std::memcpy(out.data() + out_bytes, &part, sizeof part);
    out_bytes += sizeof part;
    return asio::buffer(out.data() + (out_bytes - sizeof part), sizeof part);
  }

  /// Without TLS: writes at once as much of `out_buffers` as the system takes, and leaves the rest.
  /// A write that ended in a later turn of the loop would delay what follows it, and a peer that
  /// handles many blocks in one turn would keep others waiting for the first. Returns the bytes
  /// written.
  std::size_t write_now();

  template <class Buffers, class Handler>
  void write(const Buffers& buffers, Handler handler) {
    if (tls) {
      asio::async_write(*tls, buffers, WithoutLimit{}, std::move(handler));
    } else {
      asio::async_write(socket, buffers, WithoutLimit{}, std::move(handler));
    }
  }
  /// Reads what is there, at least one byte.
  template <class Handler>
  void read_some(std::span<std::byte> into, Handler handler) {
    const asio::mutable_buffer room(into.data(), into.size());
    if (tls) {
      tls->async_read_some(room, std::move(handler));
    } else {
      socket.async_read_some(room, std::move(handler));
    }
  }
  void close() {
    asio::error_code ignored;
    socket.close(ignored);
  }
};
using ConnectionPtr = std::shared_ptr<LaneConnection>;

}  // namespace gv
