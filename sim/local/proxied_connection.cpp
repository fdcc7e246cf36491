// Reads, delays and forwards data.
#include "sim/local/proxied_connection.hpp"

#include <algorithm>
#include <asio/write.hpp>
#include <utility>

namespace gv {
namespace {

using asio::ip::tcp;

/// Reading stops while the waiting data would take longer than this to send, as in a router's short
/// queue. This way, the connections of a pair take turns, and a short message does not wait for a
/// whole model.
constexpr Duration backlog_max = std::chrono::milliseconds(50);

/// Number of bytes that the kernel buffers in addition to those that we hold.
constexpr int receive_buffer_bytes = 256 << 10;

}  // namespace

ProxiedConnection::ProxiedConnection(asio::io_context& io, World& world, Socket accepted,
                                     std::size_t from, std::size_t to, tcp::endpoint back,
                                     LinkPace& forth, LinkPace& back_pace)
    : world_(world),
      accepted_(std::move(accepted)),
      onward_(io),
      back_endpoint_(std::move(back)),
      forth_(io, accepted_, onward_, from, to, forth),
      back_(io, onward_, accepted_, to, from, back_pace) {}

void ProxiedConnection::start() {
  asio::error_code ignored;
  accepted_.set_option(tcp::no_delay(true), ignored);
  accepted_.set_option(asio::socket_base::receive_buffer_size(receive_buffer_bytes), ignored);
  refresh();
}

void ProxiedConnection::refresh() {
  if (closed_) return;
  for (Direction* direction : {&forth_, &back_}) {
    const bool was_held = direction->state.held();
    direction->state = world_.state_of(direction->from, direction->to);
    if (direction->state.held() && !was_held) world_.counters.bytes_held += direction->waiting;
  }
  // A connection can be made only while both directions are open.
  if (!connected_ && !connecting_ && !forth_.state.held() && !back_.state.held()) connect();
  read(forth_);
  deliver(forth_);
  if (connected_) read(back_);
  deliver(back_);
}

void ProxiedConnection::connect() {
  connecting_ = true;
  onward_.async_connect(back_endpoint_, [this, self = shared_from_this()](asio::error_code error) {
    if (closed_) return;
    if (error) {
      close();
      return;
    }
    connected_ = true;
    asio::error_code ignored;
    onward_.set_option(tcp::no_delay(true), ignored);
    onward_.set_option(asio::socket_base::receive_buffer_size(receive_buffer_bytes), ignored);
    deliver(forth_);
    if (!closed_) read(back_);
  });
}

void ProxiedConnection::wait(asio::steady_timer& timer, Duration duration,
                             std::function<void()> then) {
  timer.expires_after(std::chrono::duration_cast<std::chrono::steady_clock::duration>(duration));
  timer.async_wait([this, self = shared_from_this(), then = std::move(then)](asio::error_code e) {
    if (!e && !closed_) then();
  });
}

void ProxiedConnection::read(Direction& direction) {
  if (closed_ || direction.reading || direction.ended || direction.finished) return;
  if (direction.waiting >= world_.held_bytes_max) return;
  direction.reading = true;
  const Duration backlog = direction.pace.backlog(world_.now());
  if (backlog > backlog_max) {
    wait(direction.read_timer, backlog - backlog_max, [this, &direction] {
      direction.reading = false;
      read(direction);
    });
    return;
  }
  const std::size_t room = world_.held_bytes_max - direction.waiting;
  direction.source.async_read_some(
      asio::buffer(direction.buffer.data(), std::min(room, direction.buffer.size())),
      [this, &direction, self = shared_from_this()](asio::error_code error, std::size_t count) {
        if (closed_) return;
        direction.reading = false;
        if (count > 0) take(direction, count);
        if (error) take_end(direction, error == asio::error::eof ? End::orderly : End::reset);
        deliver(direction);
        if (!closed_) read(direction);
      });
}

void ProxiedConnection::take(Direction& direction, std::size_t count) {
  if (direction.finished) return;
  const SegmentFate fate =
      direction.pace.send(world_.now(), count, direction.state.quality, direction.last_due);
  FaultProxy::Counters& counters = world_.counters;
  counters.lost += fate.losses;
  counters.duplicated += fate.duplicated;
  counters.reordered += fate.reordered;
  if (direction.state.held()) counters.bytes_held += count;
  Segment segment{.bytes = {direction.buffer.begin(),
                            direction.buffer.begin() + static_cast<std::ptrdiff_t>(count)},
                  .due = fate.due};
  if (fate.damaged) {
    ++counters.corrupted;
    harmed_ = true;
    segment.bytes[*fate.damaged] ^= static_cast<std::byte>(fate.damage);
  }
  direction.last_due = fate.due;
  direction.waiting += count;
  direction.queue.push_back(std::move(segment));
}

void ProxiedConnection::take_end(Direction& direction, End end) {
  direction.ended = true;
  if (direction.state.held() || end == End::reset) harmed_ = true;
  if (!connected_ && !connecting_) {
    // There is no connection to the other side yet, so there is nothing to end there.
    close();
    return;
  }
  const Time due = std::max(direction.last_due, world_.now() + direction.state.quality.latency);
  direction.queue.push_back({.bytes = {}, .due = due, .end = end});
}

void ProxiedConnection::deliver(Direction& direction) {
  if (closed_ || !connected_ || direction.writing || direction.state.held()) return;
  if (direction.queue.empty()) return;
  const Segment& next = direction.queue.front();
  const Duration early = next.due - world_.now();
  if (early > Duration{}) {
    wait(direction.write_timer, early, [this, &direction] { deliver(direction); });
  } else if (next.end != End::none) {
    finish(direction, next.end);
  } else {
    write(direction);
  }
}

void ProxiedConnection::write(Direction& direction) {
  direction.writing = true;
  asio::async_write(
      direction.sink, asio::buffer(direction.queue.front().bytes),
      [this, &direction, self = shared_from_this()](asio::error_code error, std::size_t count) {
        if (closed_) return;
        direction.writing = false;
        world_.counters.bytes += count;
        if (error) {
          // The sink is gone. The source learns of it through the other direction, once that is
          // open.
          finish(direction, End::orderly);
          return;
        }
        direction.waiting -= count;
        direction.queue.pop_front();
        deliver(direction);
        if (!closed_) read(direction);
      });
}

void ProxiedConnection::finish(Direction& direction, End end) {
  direction.finished = true;
  direction.queue.clear();
  direction.waiting = 0;
  asio::error_code ignored;
  direction.sink.shutdown(Socket::shutdown_send, ignored);
  if (end == End::reset || (forth_.finished && back_.finished)) close();
}

void ProxiedConnection::close() {
  if (closed_) return;
  closed_ = true;
  if (harmed_) ++world_.counters.broken;
  asio::error_code ignored;
  accepted_.close(ignored);
  onward_.close(ignored);
  for (Direction* direction : {&forth_, &back_}) {
    direction->read_timer.cancel();
    direction->write_timer.cancel();
  }
  world_.closed(shared_from_this());
}

}  // namespace gv
