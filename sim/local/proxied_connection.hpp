// A connection through the proxy: two sockets, and a queue of segments in each direction.
#pragma once

#include <array>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/steady_timer.hpp>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "sim/local/fault_proxy.hpp"
#include "sim/local/link_pace.hpp"

namespace gv {

/// Lives while a handler or the proxy holds it. After close(), it does nothing and no longer uses
/// `world`, which may be gone.
class ProxiedConnection : public std::enable_shared_from_this<ProxiedConnection> {
 public:
  using Socket = asio::ip::tcp::socket;

  /// State that all connections share. Must outlive every open connection.
  struct World {
    std::function<Time()> now;
    FaultProxy::StateOf state_of;
    std::function<void(const std::shared_ptr<ProxiedConnection>&)> closed;
    FaultProxy::Counters& counters;
    std::size_t held_bytes_max = 0;
  };

  /// `accepted` is the socket of peer `from`; `back` is the address of peer `to`. `forth` is the
  /// pace from `from` to `to`, and `back_pace` the pace from `to` to `from`.
  ProxiedConnection(asio::io_context& io, World& world, Socket accepted, std::size_t from,
                    std::size_t to, asio::ip::tcp::endpoint back, LinkPace& forth,
                    LinkPace& back_pace);

  void start();
  /// Queries the states of both directions again.
  void refresh();
  void close();
  std::size_t bytes_waiting() const { return forth_.waiting + back_.waiting; }

 private:
  enum class End { none, orderly, reset };

  struct Segment {
    std::vector<std::byte> bytes;
    Time due{};
    End end = End::none;  ///< If set, the segment has no bytes and marks the end of the stream.
  };

  struct Direction {
    Direction(asio::io_context& io, Socket& in, Socket& out, std::size_t a, std::size_t b,
              LinkPace& link)
        : source(in), sink(out), from(a), to(b), pace(link), read_timer(io), write_timer(io) {}

    Socket& source;
    Socket& sink;
    std::size_t from;
    std::size_t to;
    LinkPace& pace;
    LinkState state;
    std::deque<Segment> queue;
    std::size_t waiting = 0;  ///< Number of bytes in the queue.
    Time last_due{};
    bool reading = false;  ///< True while a read is under way or delayed.
    bool writing = false;
    bool ended = false;     ///< True when the source has no more data.
    bool finished = false;  ///< True once the stream to the sink has ended, or the sink is gone.
    asio::steady_timer read_timer;
    asio::steady_timer write_timer;
    std::array<std::byte, 16384> buffer;  ///< Holds one segment.
  };

  void connect();
  void read(Direction& direction);
  void take(Direction& direction, std::size_t count);
  void take_end(Direction& direction, End end);
  void deliver(Direction& direction);
  void write(Direction& direction);
  void finish(Direction& direction, End end);
  void wait(asio::steady_timer& timer, Duration duration, std::function<void()> then);

  World& world_;
  Socket accepted_;
  Socket onward_;
  asio::ip::tcp::endpoint back_endpoint_;
  Direction forth_;
  Direction back_;
  bool connecting_ = false;
  bool connected_ = false;
  bool harmed_ = false;  ///< True if the connection will count as broken once it has closed.
  bool closed_ = false;
};

}  // namespace gv
