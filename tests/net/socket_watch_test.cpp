// A watched ZeroMQ socket that rests after input.
#include "net/socket_watch.hpp"

#include <asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>
#include <zmq.hpp>

namespace gv {
namespace {

using namespace std::chrono_literals;

/// Two connected sockets. One of them is watched.
struct Watched {
  explicit Watched(Duration rest) {
    for (zmq::socket_t* socket : {&sender, &receiver}) socket->set(zmq::sockopt::linger, 0);
    receiver.bind("inproc://watched");
    sender.connect("inproc://watched");
    watch = std::make_shared<SocketWatch>(
        io, std::move(receiver),
        [this](SocketWatch& from) {
          ++calls;
          zmq::message_t message;
          while (from.receive(message)) read.push_back(message.to_string());
        },
        rest);
    watch->start();
  }

  void send(const std::string& text) { sender.send(zmq::buffer(text), zmq::send_flags::none); }

  /// Runs all handlers that are ready.
  void turn() {
    io.restart();
    while (io.poll() > 0) {
    }
  }

  zmq::context_t context;
  zmq::socket_t sender{context, zmq::socket_type::pair};
  zmq::socket_t receiver{context, zmq::socket_type::pair};
  asio::io_context io;
  int calls = 0;
  std::vector<std::string> read;
  std::shared_ptr<SocketWatch> watch;
};

}  // namespace

TEST_CASE("a socket without rest is read as soon as there is input") {
  Watched watched(Duration{});
  watched.send("one");
  watched.turn();
  watched.send("two");
  watched.turn();
  CHECK(watched.read == std::vector<std::string>{"one", "two"});
}

TEST_CASE("a socket rests after input and then is read in one call") {
  Watched watched(20ms);
  watched.turn();
  const auto began = std::chrono::steady_clock::now();
  watched.send("one");
  watched.turn();
  CHECK(watched.read == std::vector<std::string>{"one"});
  const int calls = watched.calls;
  watched.send("two");
  watched.send("three");
  // The loop can continue only when the rest ends.
  while (watched.read.size() < 3 && watched.io.run_one_for(10s) > 0) {
  }
  CHECK(watched.read == std::vector<std::string>{"one", "two", "three"});
  CHECK(watched.calls == calls + 1);
  CHECK(std::chrono::steady_clock::now() - began >= 20ms);
}

TEST_CASE("a socket at rest is read when it is poked") {
  Watched watched(1h);
  watched.turn();
  watched.send("one");
  watched.turn();
  watched.send("two");
  watched.turn();
  CHECK(watched.read == std::vector<std::string>{"one"});
  watched.watch->poke();
  watched.turn();
  CHECK(watched.read == std::vector<std::string>{"one", "two"});
}

}  // namespace gv
