// Limits on connections, such as those with endless messages, over real ZeroMQ sockets.
#include "net/link_connections.hpp"

#include <unistd.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "net/descriptor.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr PeerId sender{7};

/// A listening router, and a dealer that dials it.
struct Pair {
  Pair() {
    for (zmq::socket_t* socket : {&router, &dealer}) {
      socket->set(zmq::sockopt::linger, 0);
      socket->set(zmq::sockopt::rcvtimeo, 10000);
    }
    dealer.set(zmq::sockopt::reconnect_ivl, -1);
    router.bind("tcp://127.0.0.1:*");
    dealer.connect(router.get(zmq::sockopt::last_endpoint));
  }

  /// Sends `text` from the dealer, and receives it at the router.
  zmq::message_t pass(const std::string& text) {
    dealer.send(zmq::buffer(text), zmq::send_flags::none);
    zmq::message_t frame;
    REQUIRE(router.recv(frame));
    REQUIRE(router.recv(frame));
    return frame;
  }

  /// The port at which the router listens.
  std::uint16_t port() const {
    const std::string endpoint = router.get(zmq::sockopt::last_endpoint);
    return static_cast<std::uint16_t>(std::stoi(endpoint.substr(endpoint.rfind(':') + 1)));
  }

  zmq::context_t context;
  zmq::socket_t router{context, zmq::socket_type::router};
  zmq::socket_t dealer{context, zmq::socket_type::dealer};
};

template <class Holds>
bool eventually(Holds holds) {
  const auto give_up = std::chrono::steady_clock::now() + 10s;
  while (!holds() && std::chrono::steady_clock::now() < give_up) {
  }
  return holds();
}

}  // namespace

TEST_CASE("any number of whole messages may come on a connection") {
  Pair pair;
  LinkConnections connections({.bytes_max = 100000, .bytes_max_in_all = 100000});
  connections.listens_at(pair.port());
  for (int i = 0; i < 100; ++i) {
    connections.heard(pair.pass(std::string(50000, 'x')), sender);
    CHECK(connections.tick(Time{}).empty());
  }
  CHECK(connections.size() == 1);
}

TEST_CASE("a connection on which much comes without a message is ended") {
  Pair pair;
  LinkConnections connections({.bytes_max = 100000, .bytes_max_in_all = 100000});
  connections.listens_at(pair.port());
  // A message that has not been received yet does not count.
  connections.heard(pair.pass("first"), sender);
  REQUIRE(connections.tick(Time{}).empty());
  pair.dealer.send(zmq::buffer(std::string(200000, 'x')), zmq::send_flags::none);
  std::vector<std::optional<PeerId>> ended;
  REQUIRE(eventually([&] {
    if (ended.empty()) ended = connections.tick(Time{});
    return !ended.empty();
  }));
  CHECK(ended == std::vector<std::optional<PeerId>>{sender});
  CHECK(connections.size() == 0);
}

TEST_CASE("32 MiB may come without a message on one connection and 128 MiB on all together") {
  // SECURITY.md states these limits.
  const LinkConnections::Options usual;
  CHECK(usual.bytes_max == 32 << 20);
  CHECK(usual.bytes_max_in_all == 128 << 20);
}

TEST_CASE("the connection that a message came on is ended where that is asked for") {
  Pair pair;
  LinkConnections connections({});
  connections.listens_at(pair.port());
  const zmq::message_t first = pair.pass("first");
  connections.heard(first, sender);
  connections.hang_up(first);
  CHECK(eventually([&] {
    connections.tick(Time{});
    return connections.size() == 0;
  }));
}

namespace {

/// A router whose accepted connections are visible to the test.
struct Watched : Pair {
  Watched() {
    pass("first");  // The pair's own connection is accepted, so all events are about others.
    zmq_socket_monitor(router.handle(), "inproc://watched", ZMQ_EVENT_ACCEPTED);
    events.set(zmq::sockopt::linger, 0);
    events.connect("inproc://watched");
  }
  ~Watched() { zmq_socket_monitor(router.handle(), nullptr, 0); }

  /// Opens a connection from the given address, and returns its descriptor at the router.
  int open(const std::string& from = "127.0.0.1") {
    others.emplace_back(context, zmq::socket_type::dealer);
    others.back().set(zmq::sockopt::linger, 0);
    others.back().set(zmq::sockopt::reconnect_ivl, -1);
    others.back().connect("tcp://" + from + ":0;127.0.0.1:" + std::to_string(port()));
    zmq::message_t event;
    REQUIRE(events.recv(event));
    std::int32_t descriptor = -1;
    std::memcpy(&descriptor, static_cast<const char*>(event.data()) + 2, sizeof descriptor);
    REQUIRE(events.recv(event));
    return descriptor;
  }

  /// Sends on a connection made by open(), and receives the message at the router.
  zmq::message_t pass_on(std::size_t number) {
    others[number].send(zmq::buffer("hello", 5), zmq::send_flags::none);
    zmq::message_t frame;
    REQUIRE(router.recv(frame));
    REQUIRE(router.recv(frame));
    return frame;
  }

  zmq::socket_t events{context, zmq::socket_type::pair};
  std::deque<zmq::socket_t> others;
};

}  // namespace

TEST_CASE("of connections that have said nothing only as many stay as there are places") {
  Watched watched;
  LinkConnections connections({.places = {.places = 4}});
  connections.listens_at(watched.port());
  for (int i = 0; i < 12; ++i) connections.opened(watched.open(), Time{});
  CHECK(eventually([&] {
    connections.tick(Time{});
    return connections.size() == 4;
  }));
  connections.tick(Time{11s});
  CHECK(eventually([&] {
    connections.tick(Time{11s});
    return connections.size() == 0;
  }));
}

TEST_CASE("of connections on which too much comes in all only one is ended if that is enough") {
  Watched watched;
  LinkConnections connections({.bytes_max = 100000, .bytes_max_in_all = 100000});
  connections.listens_at(watched.port());
  for (std::size_t number = 0; number < 2; ++number) {
    connections.opened(watched.open(), Time{});
    connections.heard(watched.pass_on(number), sender);
  }
  REQUIRE(connections.tick(Time{}).empty());
  for (auto& other : watched.others) {
    other.send(zmq::buffer(std::string(70000, 'x')), zmq::send_flags::none);
  }
  std::size_t ended = 0;
  REQUIRE(eventually([&] {
    ended += connections.tick(Time{}).size();
    return ended > 0;
  }));
  CHECK(ended == 1);
  CHECK(connections.size() == 1);
}

TEST_CASE("a socket that has the descriptor of a connection that has ended is left alone") {
  Watched watched;
  Watched lane;
  LinkConnections connections({});
  connections.listens_at(watched.port());
  connections.opened(lane.open(), Time{});
  CHECK(connections.size() == 0);
  connections.opened(watched.open(), Time{});
  CHECK(connections.size() == 1);
}

TEST_CASE("a message counts for its connection where an earlier one had the same descriptor") {
  Watched watched;
  LinkConnections connections({});
  connections.listens_at(watched.port());
  const int descriptor = watched.open();
  const zmq::message_t message = watched.pass_on(0);
  connections.heard(message, sender);
  const Descriptor first(::dup(descriptor));
  REQUIRE(::dup2(watched.open(), descriptor) == descriptor);
  connections.heard(message, sender);
  connections.tick(Time{});
  CHECK(connections.size() == 1);
  // The report that the connection was accepted comes late. It must not make the connection a
  // stranger again.
  connections.opened(descriptor, Time{});
  connections.tick(Time{11s});
  connections.tick(Time{11s});
  CHECK(connections.size() == 1);
  REQUIRE(::dup2(first.get(), descriptor) == descriptor);  // ZeroMQ closes its own descriptor.
}

TEST_CASE("a message of a connection that has ended leaves the next socket there alone") {
  // The next socket is a lane's, or a connection of another host.
  const bool is_lane = GENERATE(true, false);
  const bool is_dialled = GENERATE(true, false);
  Watched watched;
  Watched lanes;
  Watched& next = is_lane ? lanes : watched;
  LinkConnections connections({});
  connections.listens_at(watched.port());
  const int descriptor = watched.open();
  const zmq::message_t message = watched.pass_on(0);
  const int taker = next.open(is_lane ? "127.0.0.1" : "127.0.0.2");
  const Descriptor first(::dup(descriptor));
  REQUIRE(::dup2(taker, descriptor) == descriptor);
  connections.heard(message, sender, is_dialled ? std::optional<std::uint16_t>(9) : std::nullopt);
  CHECK(connections.size() == 0);
  connections.hang_up(message);
  next.pass_on(is_lane ? 0 : 1);
  REQUIRE(::dup2(first.get(), descriptor) == descriptor);  // ZeroMQ closes its own descriptor.
}

TEST_CASE("a message on a connection that was dialled counts for it") {
  Pair pair;
  zmq::message_t route;
  LinkConnections connections({});
  pair.dealer.send(zmq::buffer("to", 2), zmq::send_flags::none);
  REQUIRE(pair.router.recv(route));
  zmq::message_t frame;
  REQUIRE(pair.router.recv(frame));
  pair.router.send(route, zmq::send_flags::sndmore);
  pair.router.send(zmq::buffer("back", 4), zmq::send_flags::none);
  REQUIRE(pair.dealer.recv(frame));
  connections.heard(frame, sender, pair.port());
  CHECK(connections.size() == 1);
}

TEST_CASE("a connection whose report is late is ended where that is asked for") {
  Watched watched;
  LinkConnections connections({});
  connections.listens_at(watched.port());
  watched.open();
  const zmq::message_t message = watched.pass_on(0);
  zmq_socket_monitor(watched.others[0].handle(), "inproc://ended", ZMQ_EVENT_DISCONNECTED);
  zmq::socket_t ended(watched.context, zmq::socket_type::pair);
  ended.set(zmq::sockopt::linger, 0);
  ended.set(zmq::sockopt::rcvtimeo, 10000);
  ended.connect("inproc://ended");
  connections.hang_up(message);
  zmq::message_t event;
  CHECK(ended.recv(event));
  zmq_socket_monitor(watched.others[0].handle(), nullptr, 0);
}

TEST_CASE("a key has a few connections and loses the one that was heard longest ago") {
  Watched watched;
  LinkConnections connections({.per_peer_max = 3});
  connections.listens_at(watched.port());
  std::vector<int> descriptors;
  for (std::size_t i = 0; i < 5; ++i) {
    descriptors.push_back(watched.open());
    connections.opened(descriptors.back(), Time{});
    connections.heard(watched.pass_on(i), sender);
    if (i < 3) connections.heard(watched.pass_on(0), sender);  // The first one keeps sending.
  }
  CHECK(eventually([&] {
    connections.tick(Time{});
    return connections.size() == 3;
  }));
  connections.heard(watched.pass_on(0), sender);
  connections.heard(watched.pass_on(4), sender);
  CHECK(connections.size() == 3);
}

}  // namespace gv
