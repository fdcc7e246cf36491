// The check of keys at a control port: no key gets in without an answer, and a port that lets a
// stranger's key in is found at the start of its peer.
#include <zmq.h>

#include <asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <optional>
#include <string_view>
#include <zmq.hpp>

#include "net/allow_list.hpp"
#include "net/control_links.hpp"

namespace {

/// True to turn every refusal of a key into an admission. So the port is open to all keys, as with
/// a libzmq that ignores the answers of the allow-list.
bool admits_all = false;

}  // namespace

// The linker gives these names to the program's calls of zmq_send and to the library's own function
// (tests/net/CMakeLists.txt).
extern "C" int __real_zmq_send(void* socket, const void* bytes, std::size_t size, int flags);

extern "C" int __wrap_zmq_send(void* socket, const void* bytes, std::size_t size, int flags) {
  const std::string_view text(static_cast<const char*>(bytes), size);
  if (admits_all && text == "400") return __real_zmq_send(socket, "200", size, flags);
  return __real_zmq_send(socket, bytes, size, flags);
}

namespace gv {

TEST_CASE("a key on the list does not get in while the check of keys gives no answer") {
  using namespace std::chrono_literals;
  const bool is_there = GENERATE(true, false);
  const KeyPair own = generate_key_pair(), member = generate_key_pair();
  zmq::context_t context;
  asio::io_context io;  // It does not run, so the list answers only in serve().
  std::optional<AllowList> list;
  if (is_there) list.emplace(io, context).set({member.public_key});
  zmq::socket_t port(context, zmq::socket_type::router);
  zmq::socket_t client(context, zmq::socket_type::dealer);
  for (zmq::socket_t* socket : {&port, &client}) socket->set(zmq::sockopt::linger, 0);
  AllowList::protect(port, curve_keys(own));
  port.bind("tcp://127.0.0.1:*");
  dial_as(client, curve_keys(member), own.public_key);
  client.connect(port.get(zmq::sockopt::last_endpoint));
  client.send(zmq::buffer("hello", 5), zmq::send_flags::none);
  zmq::message_t frame;
  port.set(zmq::sockopt::rcvtimeo, 300);
  CHECK_FALSE(port.recv(frame));
  if (!list) return;
  // As soon as there is an answer, the key gets in.
  port.set(zmq::sockopt::rcvtimeo, 5);
  const auto give_up = std::chrono::steady_clock::now() + 10s;
  bool came = false;
  while (!came && std::chrono::steady_clock::now() < give_up) {
    list->serve();
    came = port.recv(frame).has_value();
  }
  CHECK(came);
}

TEST_CASE("a peer does not start if its control port lets a stranger's key in") {
  const auto start = [] {
    asio::io_context io;
    const ControlLinks links(
        io, {.identity = generate_key_pair(), .name = "own", .listen = "127.0.0.1:0", .session = 1},
        {.message = [](const Envelope&) {},
         .invite = [](PeerId, const LaneInvite&) {},
         .contact = [](PeerId) {},
         .restarted = [](PeerId) {},
         .fact = [](const Fact&) {}});
  };
  CHECK_NOTHROW(start());
  admits_all = true;
  CHECK_THROWS_WITH(start(), Catch::Contains("a random key was not refused at 127.0.0.1:") &&
                                 Catch::Contains("; not starting"));
  admits_all = false;
}

}  // namespace gv
