// Control links whose other side falls silent, as when a router drops the packets of one pair.
#include <asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <string>
#include <variant>
#include <zmq.hpp>

#include "net/allow_list.hpp"
#include "net/control_links.hpp"
#include "net/wire.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// The links of a peer that listens and knows two others, neither of which can be dialled.
struct Listening {
  template <class Holds>
  bool until(Holds holds) {
    const auto give_up = std::chrono::steady_clock::now() + 20s;
    while (!holds() && std::chrono::steady_clock::now() < give_up) io.run_one_for(5ms);
    return holds();
  }

  asio::io_context io;
  KeyPair own = generate_key_pair();
  KeyPair first = generate_key_pair();
  KeyPair second = generate_key_pair();
  int relayed = 0;
  ControlLinks links{io,
                     {.identity = own,
                      .name = "own",
                      .authorized = {{.name = "first", .key = first.public_key},
                                     {.name = "second", .key = second.public_key}},
                      .listen = "127.0.0.1:0",
                      .session = 1},
                     {.message = [](const Envelope&) {},
                      .invite = [](PeerId, const LaneInvite&) {},
                      .contact = [](PeerId) {},
                      .restarted = [](PeerId) {},
                      .fact = [](const Fact&) {},
                      .relay = [this](PeerId, const RelayStep&) { ++relayed; }}};
};

/// A peer that dials through a raw ZeroMQ socket, says hello, and answers nothing by itself.
class Mute {
 public:
  Mute(zmq::context_t& context, Listening& there, const KeyPair& own)
      : socket_(context, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 0);
    dial_as(socket_, curve_keys(own), there.own.public_key);
    socket_.connect("tcp://" + there.links.listening());
    send(Hello{.name = "mute", .session = 2});
    const PeerId self = peer_id(own.public_key);
    REQUIRE(there.until([&] { return there.links.is_linked(self); }));
  }

  void send(const Frame& frame) {
    static_cast<void>(socket_.send(zmq::buffer(encode(frame)), zmq::send_flags::dontwait));
  }

 private:
  zmq::socket_t socket_;
};

}  // namespace

TEST_CASE("a peer's own connection is no link if it was used and does not answer") {
  Listening listening;
  zmq::context_t context;
  Mute mute(context, listening, listening.first);
  const PeerId peer = peer_id(listening.first.public_key);
  CHECK(listening.links.send(peer, Message(Ping{})));
  CHECK(listening.until([&] { return !listening.links.is_linked(peer); }));
  // A failed send makes a peer look for a relay.
  CHECK_FALSE(listening.links.send(peer, Message(Ping{})));
  // The connection is a link again once something comes over it.
  mute.send(Message(Ping{}));
  CHECK(listening.until([&] { return listening.links.is_linked(peer); }));
  CHECK(listening.links.send(peer, Message(Ping{})));
}

TEST_CASE("a peer that only receives is checked by a few bytes and stays linked") {
  Listening listening;
  ControlLinks other(listening.io,
                     {.identity = listening.first,
                      .name = "first",
                      .authorized = {{.name = "own", .key = listening.own.public_key}},
                      .session = 2},
                     {.message = [](const Envelope&) {},
                      .invite = [](PeerId, const LaneInvite&) {},
                      .contact = [](PeerId) {},
                      .restarted = [](PeerId) {},
                      .fact = [](const Fact&) {}});
  other.join(listening.links.listening());
  const PeerId peer = peer_id(listening.first.public_key);
  REQUIRE(listening.until([&] {
    return listening.links.is_linked(peer) && other.is_linked(peer_id(listening.own.public_key));
  }));
  const ControlLinks::Counters before = listening.links.counters();
  const auto began = std::chrono::steady_clock::now();
  auto next = began;
  REQUIRE(listening.until([&] {
    const auto now = std::chrono::steady_clock::now();
    if (now >= next) {
      next = now + 100ms;
      static_cast<void>(listening.links.send(peer, Message(Ping{})));
    }
    return now - began > 4s;
  }));
  CHECK(listening.until([&] { return listening.links.is_linked(peer); }));
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  // Every answer proves the connection for a second, and nothing else was sent.
  const ControlLinks::Counters after = listening.links.counters();
  const std::uint64_t answers = after.messages_received - before.messages_received;
  CHECK(answers >= 1);
  CHECK(double(answers) <= took + 1);
  CHECK(after.bytes_received - before.bytes_received == answers * encode(LinkCheck{}).size());
}

TEST_CASE("a link is checked if a relay offers to connect its two ends") {
  Listening listening;
  zmq::context_t context;
  const Mute mute(context, listening, listening.first);
  Mute relay(context, listening, listening.second);
  const PeerId peer = peer_id(listening.first.public_key);
  RelayStep offer{.kind = RelayStep::Kind::offer, .other = peer, .stream = 5};
  offer.address = "127.0.0.1:9";
  relay.send(offer);
  REQUIRE(listening.until([&] { return listening.relayed == 1; }));
  CHECK(listening.until([&] { return !listening.links.is_linked(peer); }));
}

}  // namespace gv
