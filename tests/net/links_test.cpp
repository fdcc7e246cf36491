// Control links against raw ZeroMQ sockets: only a connection's key decides its identity, whatever
// it claims.
#include <poll.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>
#include <zmq.hpp>

#include "net/allow_list.hpp"
#include "net/control_links.hpp"
#include "net/wire.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// An authorised peer that talks to `address` through a raw ZeroMQ socket.
class Raw {
 public:
  Raw(zmq::context_t& context, const KeyPair& own, const PublicKey& server,
      const std::string& address, const std::string& routing_id)
      : socket_(context, zmq::socket_type::dealer) {
    socket_.set(zmq::sockopt::linger, 0);
    socket_.set(zmq::sockopt::routing_id, routing_id);
    dial_as(socket_, curve_keys(own), server);
    socket_.connect("tcp://" + address);
  }

  void send(const Frame& frame) {
    static_cast<void>(socket_.send(zmq::buffer(encode(frame)), zmq::send_flags::dontwait));
  }

  /// Receives everything that has arrived. Counts hellos and keeps messages.
  void take() {
    zmq::message_t bytes;
    while (socket_.recv(bytes, zmq::recv_flags::dontwait)) {
      const Decoded decoded = decode({static_cast<const std::byte*>(bytes.data()), bytes.size()});
      if (!decoded.frame) continue;
      if (std::holds_alternative<Hello>(*decoded.frame)) ++hellos;
      if (std::holds_alternative<LinkCheck>(*decoded.frame)) ++checks;
      if (const auto* message = std::get_if<Message>(&*decoded.frame)) messages.push_back(*message);
    }
  }

  int hellos = 0;
  int checks = 0;
  std::vector<Message> messages;

 private:
  zmq::socket_t socket_;
};

}  // namespace

TEST_CASE("what a handler of messages throws counts against their sender and ends nothing") {
  asio::io_context io;
  const KeyPair server = generate_key_pair();
  const KeyPair mallory = generate_key_pair();
  std::vector<PeerId> quarantined;
  int unsound = 0;
  ControlLinks links(io,
                     {.identity = server,
                      .name = "server",
                      .authorized = {{.name = "mallory", .key = mallory.public_key}},
                      .listen = "127.0.0.1:0",
                      .session = 1,
                      .quarantine = 500ms},
                     {.message = [&](const Envelope&) { throw std::runtime_error("too much"); },
                      .invite = [](PeerId, const LaneInvite&) {},
                      .contact = [](PeerId) {},
                      .restarted = [](PeerId) {},
                      .fact =
                          [&](const Fact& fact) {
                            const auto* cut = std::get_if<LinkQuarantined>(&fact);
                            if (cut != nullptr) quarantined.push_back(cut->peer);
                            unsound += std::holds_alternative<UnsoundMessage>(fact);
                          }});
  const auto until = [&](auto holds, std::chrono::milliseconds limit) {
    const auto give_up = std::chrono::steady_clock::now() + limit;
    bool is_so = holds();
    while (!is_so && std::chrono::steady_clock::now() < give_up) {
      io.run_one_for(5ms);
      is_so = holds();
    }
    return is_so;  // Do not call holds() again, because it may open a connection.
  };
  zmq::context_t context;
  Raw raw(context, mallory, server.public_key, links.listening(), "mallory");
  raw.send(Hello{.name = "mallory", .session = 2});
  REQUIRE(until([&] { return raw.take(), raw.hellos > 0; }, 10s));
  for (std::uint64_t i = 1; i <= 3; ++i) raw.send(Message(Ping{.sequence = i}));
  REQUIRE(until([&] { return !quarantined.empty(); }, 10s));
  CHECK(unsound == 3);
  CHECK(quarantined == std::vector<PeerId>{peer_id(mallory.public_key)});
  CHECK_FALSE(links.send(quarantined.front(), Message(Ping{})));

  // After a while the server accepts Mallory's key again. Each attempt needs a new connection,
  // because ZeroMQ does not retry a refused one.
  const auto comes_back = [&] {
    Raw again(context, mallory, server.public_key, links.listening(), "again");
    again.send(Hello{.name = "mallory", .session = 2});
    return until([&] { return again.take(), again.hellos > 0; }, 300ms);
  };
  CHECK(until(comes_back, 10s));
}

TEST_CASE("an address that cannot be dialled is reported and ends nothing") {
  asio::io_context io;
  const KeyPair own = generate_key_pair();
  const KeyPair other = generate_key_pair();
  std::string why;
  ControlLinks links(io,
                     {.identity = own,
                      .name = "own",
                      .authorized = {{.name = "other", .key = other.public_key}},
                      .session = 1},
                     {.message = [](const Envelope&) {},
                      .invite = [](PeerId, const LaneInvite&) {},
                      .contact = [](PeerId) {},
                      .restarted = [](PeerId) {},
                      .fact =
                          [&](const Fact& fact) {
                            if (const auto* no = std::get_if<LinkRefused>(&fact)) why = no->why;
                          }});
  links.set_address(peer_id(other.public_key), "x y z");
  CHECK_FALSE(links.send(peer_id(other.public_key), Message(Ping{})));
  CHECK(why.find("x y z") != std::string::npos);
  links.join("x y z");
}

TEST_CASE("a connection under the routing id of another gets nothing that is meant for it") {
  asio::io_context io;
  const KeyPair server = generate_key_pair();
  const KeyPair alice = generate_key_pair();
  const KeyPair mallory = generate_key_pair();
  std::vector<PeerId> senders;
  ControlLinks links(io,
                     {.identity = server,
                      .name = "server",
                      .authorized = {{.name = "alice", .key = alice.public_key},
                                     {.name = "mallory", .key = mallory.public_key}},
                      .listen = "127.0.0.1:0",
                      .session = 1},
                     {.message = [&](const Envelope& in) { senders.push_back(in.from); },
                      .invite = [](PeerId, const LaneInvite&) {},
                      .contact = [](PeerId) {},
                      .restarted = [](PeerId) {},
                      .fact = [](const Fact&) {}});
  const auto until = [&](auto holds, std::chrono::milliseconds limit) {
    const auto give_up = std::chrono::steady_clock::now() + limit;
    bool is_so = holds();
    while (!is_so && std::chrono::steady_clock::now() < give_up) {
      io.run_one_for(5ms);
      is_so = holds();
    }
    return is_so;  // Do not call holds() again, because it may open a connection.
  };
  zmq::context_t context;
  Raw first(context, alice, server.public_key, links.listening(), "alice");
  first.send(Hello{.name = "alice", .session = 2});
  REQUIRE(until([&] { return first.take(), first.hellos > 0; }, 10s));

  // An insider with its own key uses Alice's name and sends messages.
  Raw squatter(context, mallory, server.public_key, links.listening(), "alice");
  squatter.send(Hello{.name = "alice", .session = 3});
  squatter.send(Message(Ping{.sequence = 1}));
  CHECK_FALSE(until([&] { return squatter.take(), squatter.hellos > 0; }, 1s));

  // Messages to Alice reach only her, and messages from her connection count as hers.
  first.send(Message(Ping{.sequence = 2}));
  REQUIRE(until([&] { return !senders.empty(); }, 10s));
  CHECK(senders == std::vector<PeerId>{peer_id(alice.public_key)});
  REQUIRE(links.send(peer_id(alice.public_key), Message(Ping{.sequence = 7})));
  REQUIRE(until([&] { return first.take(), !first.messages.empty(); }, 10s));
  CHECK(std::get<Ping>(first.messages.front()).sequence == 7);
  squatter.take();
  CHECK(squatter.messages.empty());
  CHECK_FALSE(links.send(peer_id(mallory.public_key), Message(Ping{.sequence = 8})));

  // Under its own name the insider is accepted, as itself.
  Raw honest(context, mallory, server.public_key, links.listening(), "mallory");
  honest.send(Hello{.name = "alice", .session = 4});
  honest.send(Message(Ping{.sequence = 3}));
  REQUIRE(until([&] { return senders.size() > 1; }, 10s));
  CHECK(senders.back() == peer_id(mallory.public_key));
}

namespace {

/// The links of a server that counts what its only member sends.
struct Served {
  explicit Served(RateLimit::Options frames = {.per_second = 1e6, .burst = 1e6})
      : links(io,
              {.identity = server,
               .name = "server",
               .authorized = {{.name = "mallory", .key = mallory.public_key}},
               .listen = "127.0.0.1:0",
               .session = 1,
               .frames = frames},
              {.message = [this](const Envelope&) { ++messages; },
               .invite = [this](PeerId, const LaneInvite& in) { invites.push_back(in); },
               .contact = [](PeerId) {},
               .restarted = [](PeerId) {},
               .fact =
                   [this](const Fact& fact) {
                     const auto* unsound = std::get_if<UnsoundMessage>(&fact);
                     if (unsound != nullptr) why.push_back(unsound->why);
                     is_quarantined =
                         is_quarantined || std::holds_alternative<LinkQuarantined>(fact);
                   }}) {}

  template <class Holds>
  bool until(Holds holds, std::chrono::milliseconds limit = 10s) {
    const auto give_up = std::chrono::steady_clock::now() + limit;
    bool is_so = holds();
    while (!is_so && std::chrono::steady_clock::now() < give_up) {
      io.run_one_for(5ms);
      is_so = holds();
    }
    return is_so;  // Do not call holds() again, because it may open a connection.
  }

  asio::io_context io;
  KeyPair server = generate_key_pair();
  KeyPair mallory = generate_key_pair();
  int messages = 0;
  std::vector<LaneInvite> invites;
  std::vector<std::string> why;
  bool is_quarantined = false;
  ControlLinks links;
};

}  // namespace

TEST_CASE("an invitation to lanes has an address only where its sender is known to be") {
  Served served;
  zmq::context_t context;
  Raw raw(context, served.mallory, served.server.public_key, served.links.listening(), "mallory");
  raw.send(Hello{.name = "mallory", .session = 2});
  REQUIRE(served.until([&] { return raw.take(), raw.hellos > 0; }));
  const std::vector<std::string> addresses = {"127.0.0.1:9", "127.0.0.2:9", "192.0.2.1:22", ":9",
                                              ""};
  for (const std::string& address : addresses) {
    LaneInvite invite{.lane = 5};
    invite.address = address;
    raw.send(invite);
  }
  REQUIRE(served.until([&] { return served.invites.size() == addresses.size(); }));
  CHECK(served.invites[0].address == "127.0.0.1:9");
  for (std::size_t i = 1; i < addresses.size(); ++i) CHECK(served.invites[i].address.empty());
}

TEST_CASE("what a relay passes on costs it no invitations") {
  Served served;
  zmq::context_t context;
  Raw raw(context, served.mallory, served.server.public_key, served.links.listening(), "mallory");
  raw.send(Hello{.name = "mallory", .session = 2});
  REQUIRE(served.until([&] { return raw.take(), raw.hellos > 0; }));
  for (int i = 0; i < 500; ++i) raw.send(RelayStep{.kind = RelayStep::Kind::ask, .other = {}});
  raw.send(LaneInvite{.lane = 5});
  raw.send(Message(Ping{}));
  REQUIRE(served.until([&] { return served.messages == 1; }));
  CHECK(served.invites.size() == 1);
}

TEST_CASE("leaving the list and coming back gives a key no more handshakes") {
  asio::io_context io;
  zmq::context_t context;
  AllowList list(io, context);
  zmq::socket_t asks(context, zmq::socket_type::req);
  asks.set(zmq::sockopt::linger, 0);
  asks.connect("inproc://zeromq.zap.01");
  const auto admits = [&](const PublicKey& key) {
    const CurveKey curve = *curve_key(key);
    for (const std::string& part :
         {std::string("1.0"), std::string("1"), std::string("grapevine"), std::string("127.0.0.1"),
          std::string(), std::string("CURVE")}) {
      asks.send(zmq::buffer(part), zmq::send_flags::sndmore);
    }
    asks.send(zmq::buffer(curve.data(), curve.size()), zmq::send_flags::none);
    std::vector<std::string> answer;
    do {
      list.serve();
      zmq::message_t frame;
      if (!asks.recv(frame, zmq::recv_flags::dontwait)) continue;
      answer.push_back(frame.to_string());
      while (frame.more() && asks.recv(frame)) answer.push_back(frame.to_string());
    } while (answer.empty());
    return answer.at(2) == "200";
  };
  const PublicKey member = generate_key_pair().public_key, shared = generate_key_pair().public_key;
  list.set({member}, {shared});
  int admitted = 0;
  while (admitted < 100 && admits(member)) ++admitted;
  CHECK(admitted >= 30);
  REQUIRE(admits(shared));
  CHECK(list.counted() == 2);
  // The budget for one second is one handshake of the member and twenty of the shared key.
  list.set({}, {});
  CHECK(list.counted() > 0);
  list.set({member}, {shared});
  CHECK_FALSE((admits(member) && admits(member)));
  const auto give_up = std::chrono::steady_clock::now() + 10s;
  while (list.counted() == 2 && std::chrono::steady_clock::now() < give_up) list.set({}, {});
  CHECK(list.counted() == 1);
}

TEST_CASE("a key that floods its link is quarantined and its frames are left unread") {
  Served served({.per_second = 100, .burst = 300});
  zmq::context_t context;
  // Each flood ends the connection. ZeroMQ ignores a new connection whose routing id it still knows
  // from the one that has just ended, so each connection has its own id.
  for (const std::string id : {"first", "second", "third"}) {
    Raw raw(context, served.mallory, served.server.public_key, served.links.listening(), id);
    raw.send(Hello{.name = "mallory", .session = 2});
    const std::size_t floods = served.why.size();
    // Even on a busy machine a turn takes less than five seconds, so this is a flood. Messages that
    // had arrived before a connection ended are still read, and may count as another flood.
    REQUIRE(served.until([&] {
      for (std::uint64_t i = 0; i < 900; ++i) raw.send(Message(Ping{.sequence = i}));
      return served.why.size() > floods || served.is_quarantined;
    }));
  }
  CHECK(served.is_quarantined);
  CHECK(served.why == std::vector<std::string>(3, "a flood of messages"));
}

TEST_CASE("hellos have no effect beyond a few a second and those of new processes beyond fewer") {
  const std::uint64_t step = GENERATE(0, 1);  // From each session to the next.
  Served served;
  zmq::context_t context;
  Raw raw(context, served.mallory, served.server.public_key, served.links.listening(), "mallory");
  // These 500 messages are well within the thousand that ZeroMQ queues.
  const auto began = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < 500; ++i) raw.send(Hello{.name = "m", .session = 2 + step * i});
  for (int i = 0; i < 10; ++i) raw.send(Message(Ping{}));
  REQUIRE(served.until([&] { return raw.take(), served.messages == 10; }));
  const double took =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  CHECK(raw.hellos <= (step > 0 ? 10 + took : 101 + 50 * took));
}

TEST_CASE("a silent link is checked by a few bytes and not by another hello") {
  Served served;
  ControlLinks other(served.io,
                     {.identity = served.mallory,
                      .name = "mallory",
                      .authorized = {{.name = "server", .key = served.server.public_key}},
                      .session = 2},
                     {.message = [](const Envelope&) {},
                      .invite = [](PeerId, const LaneInvite&) {},
                      .contact = [](PeerId) {},
                      .restarted = [](PeerId) {},
                      .fact = [](const Fact&) {}});
  other.join(served.links.listening());
  const PeerId server = peer_id(served.server.public_key);
  REQUIRE(served.until([&] { return other.send(server, Message(Ping{})); }));
  // The message gets no answer, so the link is checked.
  const ControlLinks::Counters before = other.counters();
  REQUIRE(
      served.until([&] { return other.counters().messages_received > before.messages_received; }));
  const ControlLinks::Counters after = other.counters();
  CHECK(after.messages_sent - before.messages_sent == 1);
  CHECK(after.bytes_sent - before.bytes_sent == encode(LinkCheck{}).size());
  CHECK(after.bytes_received - before.bytes_received == encode(LinkCheck{}).size());
  CHECK(served.messages == 1);
  CHECK(served.why.empty());
}

namespace {

/// Links that count their contacts and refused hellos.
struct Counted {
  Counted(asio::io_context& io, ControlLinks::Options given)
      : links(io, std::move(given),
              {.message = [](const Envelope&) {},
               .invite = [](PeerId, const LaneInvite&) {},
               .contact = [this](PeerId) { ++contacts; },
               .restarted = [](PeerId) {},
               .fact =
                   [this](const Fact& fact) {
                     refused += std::holds_alternative<HelloRefused>(fact);
                   }}) {}

  int contacts = 0;
  int refused = 0;
  ControlLinks links;
};

/// A peer that listens on any port, and admits the peer "own" with this key.
ControlLinks::Options server_with(const KeyPair& identity, const PublicKey& own) {
  return {.identity = identity,
          .name = "server",
          .authorized = {{.name = "own", .key = own}},
          .listen = "127.0.0.1:0",
          .session = 1};
}

template <class Holds>
bool until(asio::io_context& io, Holds holds) {
  const auto give_up = std::chrono::steady_clock::now() + 30s;
  while (!holds() && std::chrono::steady_clock::now() < give_up) io.run_one_for(5ms);
  return holds();
}

}  // namespace

TEST_CASE("a peer is found at an address without a name however long the list is") {
  asio::io_context io;
  const KeyPair own = generate_key_pair();
  std::vector<KeyPair> pairs;
  for (int i = 0; i < 70; ++i) pairs.push_back(generate_key_pair());
  // Keys are tried in the order of peer ids, and the listening peer comes last.
  std::ranges::sort(pairs, {}, [](const KeyPair& pair) { return peer_id(pair.public_key); });
  std::vector<AuthorizedPeer> listed;
  for (const KeyPair& pair : pairs) {
    listed.push_back({.name = "peer-" + std::to_string(listed.size()), .key = pair.public_key});
  }
  Counted server(io, server_with(pairs.back(), own.public_key));
  Counted dialler(io, {.identity = own,
                       .name = "own",
                       .authorized = listed,
                       .session = 2,
                       .handshake_deadline = 1s});
  dialler.links.join(server.links.listening());
  CHECK(until(io, [&] { return server.contacts == 1 && dialler.contacts == 1; }));
}

TEST_CASE("a pending join tries keys that come onto the list and those out of quarantine") {
  asio::io_context io;
  const KeyPair own = generate_key_pair(), other = generate_key_pair();
  const AuthorizedPeer listed{.name = "server", .key = other.public_key};
  const bool is_listed_later = GENERATE(true, false);
  const std::string name = GENERATE("", "server@");
  CAPTURE(is_listed_later, name);
  Counted server(io, server_with(other, own.public_key));
  Counted dialler(io, {.identity = own,
                       .name = "own",
                       .authorized = is_listed_later ? std::vector<AuthorizedPeer>()
                                                     : std::vector<AuthorizedPeer>{listed},
                       .session = 2,
                       .handshake_deadline = 500ms,
                       .quarantine = 200ms});
  dialler.links.join(name + server.links.listening());
  if (is_listed_later) {
    dialler.links.authorize({listed});
  } else {
    dialler.links.quarantine(peer_id(other.public_key));
  }
  CHECK(until(io, [&] { return server.contacts == 1 && dialler.contacts == 1; }));
}

TEST_CASE("a peer that dialled is admitted when the other is restarted with equal settings") {
  asio::io_context io;
  const KeyPair own = generate_key_pair(), other = generate_key_pair();
  const auto serve = [&](std::string listen, std::string model, std::uint64_t session) {
    return ControlLinks::Options{.identity = other,
                                 .name = "server",
                                 .authorized = {{.name = "own", .key = own.public_key}},
                                 .listen = std::move(listen),
                                 .session = session,
                                 .agreement = {{"model", std::move(model)}}};
  };
  std::optional<Counted> server;
  server.emplace(io, serve("127.0.0.1:0", "cnn", 1));
  // The server cannot dial this peer.
  Counted dialler(io, {.identity = own,
                       .name = "own",
                       .authorized = {{.name = "server", .key = other.public_key}},
                       .session = 2,
                       .agreement = {{"model", "mlp"}}});
  const std::string address = server->links.listening();
  dialler.links.join(address);
  REQUIRE(until(io, [&] { return dialler.refused == 1 && server->refused == 1; }));
  server.reset();
  server.emplace(io, serve(address, "mlp", 3));
  CHECK(until(io, [&] { return server->contacts == 1 && dialler.contacts == 1; }));
}

TEST_CASE("a peer is joined and dialled by the name of its host") {
  asio::io_context io;
  const KeyPair own = generate_key_pair(), other = generate_key_pair();
  Counted server(io, {.identity = other,
                      .name = "server",
                      .authorized = {{.name = "own", .key = own.public_key}},
                      .listen = "127.0.0.1:0",
                      .session = 1});
  const std::string listening = server.links.listening();
  const std::string address = "localhost" + listening.substr(listening.rfind(':'));
  Counted dialler(io, {.identity = own,
                       .name = "own",
                       .authorized = {{.name = "server", .key = other.public_key}},
                       .session = 2});
  if (GENERATE(true, false)) {
    dialler.links.join(address);
  } else {
    dialler.links.dial(peer_id(other.public_key), address);
  }
  CHECK(until(io, [&] { return server.contacts == 1 && dialler.contacts == 1; }));
}

TEST_CASE("an address is no longer tried once its peer is linked at another") {
  asio::io_context io;
  const KeyPair own = generate_key_pair(), other = generate_key_pair();
  // At the former address, another listener now closes each connection.
  asio::ip::tcp::acceptor former(io, {asio::ip::make_address("127.0.0.1"), 0});
  auto tried = std::chrono::steady_clock::now();
  std::function<void()> accept = [&] {
    former.async_accept([&](asio::error_code, asio::ip::tcp::socket) {
      tried = std::chrono::steady_clock::now();
      accept();
    });
  };
  accept();
  Counted server(io, server_with(other, own.public_key));
  Counted dialler(io, {.identity = own,
                       .name = "own",
                       .authorized = {{.name = "server", .key = other.public_key}},
                       .session = 2});
  const std::string address = "127.0.0.1:" + std::to_string(former.local_endpoint().port());
  dialler.links.join("server@" + address);
  dialler.links.dial(peer_id(other.public_key), server.links.listening());
  REQUIRE(until(io, [&] { return server.contacts == 1 && dialler.contacts == 1; }));
  // ZeroMQ would dial the address several times a second.
  CHECK(until(io, [&] { return std::chrono::steady_clock::now() - tried > 3s; }));
}

TEST_CASE("a changed address on the list is where the peer is dialled next") {
  asio::io_context io;
  const KeyPair own = generate_key_pair(), other = generate_key_pair();
  AuthorizedPeer listed{.name = "server", .key = other.public_key, .address = "127.0.0.1:9"};
  Counted server(io, {.identity = other,
                      .name = "server",
                      .authorized = {{.name = "own", .key = own.public_key}},
                      .listen = "127.0.0.1:0",
                      .session = 1});
  Counted dialler(io, {.identity = own, .name = "own", .authorized = {listed}, .session = 2});
  listed.address = server.links.listening();
  dialler.links.authorize({listed});
  REQUIRE(dialler.links.send(peer_id(other.public_key), Message(Ping{})));
  CHECK(until(io, [&] { return server.contacts == 1 && dialler.contacts == 1; }));
}

TEST_CASE("a check over a connection without a hello is answered by a hello") {
  Served served;
  zmq::context_t context;
  Raw raw(context, served.mallory, served.server.public_key, served.links.listening(), "mallory");
  raw.send(LinkCheck{});
  REQUIRE(served.until([&] { return raw.take(), raw.hellos == 1; }));
  CHECK(raw.checks == 0);
  raw.send(Hello{.name = "mallory", .session = 2});
  REQUIRE(served.until([&] { return raw.take(), raw.hellos == 2; }));
  raw.send(LinkCheck{});
  REQUIRE(served.until([&] { return raw.take(), raw.checks == 1; }));
  CHECK(raw.hellos == 2);
}

TEST_CASE("a connection to a control port that stays silent is left to the system for a second") {
  Served served;
  const std::string listening = served.links.listening();
  const int port = std::stoi(listening.substr(listening.rfind(':') + 1));
  const asio::ip::tcp::endpoint endpoint(asio::ip::make_address("127.0.0.1"),
                                         static_cast<std::uint16_t>(port));
  // ZeroMQ greets every connection that it accepts.
  const auto is_greeted = [](asio::ip::tcp::socket& socket, int patience_ms) {
    ::pollfd wait{.fd = socket.native_handle(), .events = POLLIN, .revents = 0};
    return ::poll(&wait, 1, patience_ms) > 0;
  };
  // On a busy machine, too much time may pass before the test looks, so it tries several times.
  bool is_decided = false;
  for (int attempt = 0; attempt < 10 && !is_decided; ++attempt) {
    asio::io_context io;
    asio::ip::tcp::socket silent(io), other(io);
    const auto began = std::chrono::steady_clock::now();
    silent.connect(endpoint);
    other.connect(endpoint);
    asio::write(other, asio::buffer("\xff", 1));
    REQUIRE(is_greeted(other, 10'000));
    const bool too_soon = is_greeted(silent, 200);
    is_decided = std::chrono::steady_clock::now() - began < 900ms;
    if (is_decided) CHECK_FALSE(too_soon);
    CHECK(is_greeted(silent, 10'000));
  }
  CHECK(is_decided);
}

}  // namespace gv
