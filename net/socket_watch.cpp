// Turns ZeroMQ's edge-triggered descriptor into calls that cannot be missed.
#include "net/socket_watch.hpp"

#include <algorithm>
#include <asio/post.hpp>
#include <cerrno>
#include <utility>

namespace gv {

SocketWatch::SocketWatch(asio::io_context& io, zmq::socket_t socket,
                         std::function<void(SocketWatch&)> readable, Duration rest)
    : io_(io),
      socket_(std::move(socket)),
      readable_(std::move(readable)),
      descriptor_(io, socket_.get(zmq::sockopt::fd)),
      timer_(io),
      rest_(rest) {}

SocketWatch::~SocketWatch() {
  // The descriptor belongs to ZeroMQ and must not be closed here.
  descriptor_.release();
}

void SocketWatch::start() {
  wait();
  poke();
}

bool SocketWatch::has_input() {
  try {
    return (socket_.get(zmq::sockopt::events) & ZMQ_POLLIN) != 0;
  } catch (const zmq::error_t& error) {
    // A signal interrupted the call, so it is not known whether there is input.
    if (error.num() == EINTR) return true;
    throw;
  }
}

bool SocketWatch::receive(zmq::message_t& into) {
  try {
    return socket_.recv(into, zmq::recv_flags::dontwait).has_value();
  } catch (const zmq::error_t& error) {
    if (error.num() != EINTR) throw;
    poke();
    return false;
  }
}

void SocketWatch::wait() {
  descriptor_.async_wait(asio::posix::stream_descriptor::wait_read,
                         [weak = weak_from_this()](asio::error_code error) {
                           const auto self = weak.lock();
                           if (!self || error) return;
                           self->go_on(self->serve());
                         });
}

void SocketWatch::go_on(bool had_input) {
  if (!had_input || rest_ == Duration{}) return wait();
  timer_.expires_after(rest_);
  timer_.async_wait([weak = weak_from_this()](asio::error_code error) {
    const auto self = weak.lock();
    if (!self || error) return;
    self->go_on(self->serve());
  });
}

void SocketWatch::poke() {
  if (poked_) return;
  poked_ = true;
  asio::post(io_, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (!self) return;
    self->poked_ = false;
    self->serve();
  });
}

bool SocketWatch::serve() {
  if (!has_input()) return false;
  readable_(*this);
  // Input that came during the call may have raised no new edge.
  if (has_input()) poke();
  return true;
}

bool await_input(std::vector<zmq::pollitem_t> items, std::chrono::steady_clock::time_point until) {
  using std::chrono::milliseconds;
  while (true) {
    const auto left = until - std::chrono::steady_clock::now();
    try {
      return zmq::poll(items, std::max(std::chrono::ceil<milliseconds>(left), milliseconds(0))) > 0;
    } catch (const zmq::error_t& error) {
      if (error.num() != EINTR) throw;
    }
  }
}

}  // namespace gv
