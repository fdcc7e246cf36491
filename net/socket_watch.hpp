// One ZeroMQ socket inside an Asio loop.
#pragma once

#include <asio/io_context.hpp>
#include <asio/posix/stream_descriptor.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <functional>
#include <memory>
#include <vector>
#include <zmq.hpp>

#include "base/time.hpp"

namespace gv {

/// Owns a ZeroMQ socket and calls `readable` on the loop whenever the socket may have input.
/// ZeroMQ's descriptor is edge-triggered and reports nothing about sends, so `poke()` must follow
/// every use of the socket outside `readable`. Create watches with make_shared. `readable` is never
/// called after the watch is gone.
class SocketWatch : public std::enable_shared_from_this<SocketWatch> {
 public:
  /// After input, the socket is not checked again for the time `rest`, unless it is poked. A check
  /// takes several system calls, so input that is frequent but not urgent is read in batches.
  SocketWatch(asio::io_context& io, zmq::socket_t socket,
              std::function<void(SocketWatch&)> readable, Duration rest = {});
  ~SocketWatch();

  /// Begins watching.
  void start();

  /// Checks for input soon.
  void poke();

  bool has_input();
  /// Takes the next part of a message; returns false if there is none now. A signal counts as no
  /// input, not as a failure.
  bool receive(zmq::message_t& into);
  zmq::socket_t& socket() { return socket_; }

 private:
  void wait();
  void go_on(bool had_input);
  bool serve();  ///< Returns true if there was input.

  asio::io_context& io_;
  zmq::socket_t socket_;
  std::function<void(SocketWatch&)> readable_;
  asio::posix::stream_descriptor descriptor_;
  asio::steady_timer timer_;
  Duration rest_;
  bool poked_ = false;
};

/// Waits for input outside a loop, until `until` at the latest. Returns false if none came. A
/// signal does not end the wait.
bool await_input(std::vector<zmq::pollitem_t> items, std::chrono::steady_clock::time_point until);

}  // namespace gv
