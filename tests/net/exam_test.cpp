// Exams by doctor: who may ask and how often, what is dialled, and the lane that returns bytes.
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <zmq.hpp>

#include "net/allow_list.hpp"
#include "net/bulk_lanes.hpp"
#include "net/control_links.hpp"
#include "net/examiner.hpp"
#include "net/lane_handshake.hpp"
#include "net/wire.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;
using asio::ip::tcp;

template <class Condition>
bool until(asio::io_context& io, Condition holds, std::chrono::milliseconds limit = 20s) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    io.run_one_for(5ms);
    io.restart();
  }
  return true;
}

/// A peer that answers questions, and the one member that it knows.
struct AskedPeer {
  explicit AskedPeer(RateLimit::Options exams = {.per_second = 0.1, .burst = 6}) {
    links.emplace(
        io,
        ControlLinks::Options{.identity = identity,
                              .name = "asked",
                              .authorized = {{.name = "member", .key = member.public_key}},
                              .listen = "127.0.0.1:0",
                              .session = 1,
                              .exams = exams},
        ControlLinks::Callbacks{
            .message = [](const Envelope&) {},
            .invite = [](PeerId, const LaneInvite&) {},
            .contact = [this](PeerId) { ++contacts; },
            .restarted = [](PeerId) {},
            .fact = [](const Fact&) {},
            .has_ticket =
                [this](const PublicKey&) {
                  ++guests_asked_about;
                  return admits_guests;
                },
            .examine = [this](ExamCall call) { calls.push_back(std::move(call)); }});
  }

  asio::io_context io;
  KeyPair identity = generate_key_pair(), member = generate_key_pair();
  std::optional<ControlLinks> links;
  std::vector<ExamCall> calls;
  int contacts = 0;
  int guests_asked_about = 0;
  bool admits_guests = false;
};

/// A connection that sends no hello.
struct Asker {
  Asker(AskedPeer& peer, const KeyPair& identity) : dealer(context, zmq::socket_type::dealer) {
    dealer.set(zmq::sockopt::linger, 0);
    dial_as(dealer, curve_keys(identity), peer.identity.public_key);
    dealer.connect("tcp://" + peer.links->listening());
  }
  void ask(const Frame& frame) { (void)dealer.send(zmq::buffer(encode(frame))); }
  /// The next frame; nullopt if none has arrived.
  std::optional<Frame> next() {
    zmq::message_t bytes;
    if (!dealer.recv(bytes, zmq::recv_flags::dontwait)) return std::nullopt;
    return decode({static_cast<const std::byte*>(bytes.data()), bytes.size()}).frame;
  }

  zmq::context_t context;
  zmq::socket_t dealer;
};

}  // namespace

TEST_CASE("a member that asks for an exam is answered and is no member afterwards") {
  AskedPeer peer;
  Asker asker(peer, peer.member);
  asker.ask(ExamRequest{.number = 7, .control_port = 7000, .wants_echo = true});
  REQUIRE(until(peer.io, [&] { return peer.calls.size() == 1; }));
  CHECK(peer.calls[0].from == peer.member.public_key);
  CHECK_FALSE(peer.calls[0].is_guest);
  CHECK(peer.calls[0].source == "127.0.0.1");
  CHECK(peer.calls[0].request ==
        ExamRequest{.number = 7, .control_port = 7000, .wants_echo = true});
  peer.calls[0].reply({.number = 7, .seen_as = "127.0.0.1"});
  std::optional<Frame> frame;
  REQUIRE(until(peer.io, [&] { return (frame = asker.next()).has_value(); }));
  CHECK(std::get<ExamAnswer>(*frame).seen_as == "127.0.0.1");
  CHECK(peer.contacts == 0);
  CHECK_FALSE(peer.links->is_linked(peer_id(peer.member.public_key)));
}

TEST_CASE("a key that asks for exams often is refused in words and dialled no more") {
  AskedPeer peer({.per_second = 1e-6, .burst = 2});
  Asker asker(peer, peer.member);
  for (std::uint64_t number = 0; number < 5; ++number) asker.ask(ExamRequest{.number = number});
  std::vector<ExamAnswer> refused;
  REQUIRE(until(peer.io, [&] {
    if (const auto frame = asker.next()) refused.push_back(std::get<ExamAnswer>(*frame));
    return refused.size() == 3;
  }));
  CHECK(peer.calls.size() == 2);
  for (const ExamAnswer& answer : refused) CHECK_FALSE(answer.refusal.empty());
  // A second connection has no separate budget.
  Asker again(peer, peer.member);
  again.ask(ExamRequest{});
  REQUIRE(until(peer.io, [&] { return again.next().has_value(); }));
  CHECK(peer.calls.size() == 2);
}

TEST_CASE("a guest asks for an exam only with a ticket that is good") {
  AskedPeer peer({.per_second = 1e-6, .burst = 1});
  const KeyPair guest = generate_key_pair();
  peer.links->admit_guests({guest.public_key});
  // Guests without a valid ticket get no answer, however often they ask, and are cut off.
  for (int asked = 1; asked <= 3; ++asked) {
    Asker asker(peer, guest);
    asker.ask(ExamRequest{.number = 1});
    REQUIRE(until(peer.io, [&] { return peer.guests_asked_about == asked; }));
    CHECK_FALSE(until(
        peer.io, [&] { return asker.next().has_value(); }, 50ms));
  }
  CHECK(peer.calls.empty());
  CHECK(peer.links->counters().refused >= 3);
  // The guests' failed attempts have used up none of the budget.
  peer.admits_guests = true;
  Asker welcome(peer, guest);
  welcome.ask(ExamRequest{.number = 2});
  REQUIRE(until(peer.io, [&] { return peer.calls.size() == 1; }));
  CHECK(peer.calls[0].is_guest);
  peer.calls[0].reply({.number = 2});
  CHECK(until(peer.io, [&] { return welcome.next().has_value(); }));
}

TEST_CASE("an answer to an exam on a link is an offence") {
  AskedPeer peer;
  Asker asker(peer, peer.member);
  asker.ask(ExamAnswer{.number = 1});
  asker.ask(Hello{.name = "member", .session = 2});
  REQUIRE(until(peer.io, [&] { return peer.contacts == 1; }));
  const auto before = peer.links->counters().refused;
  asker.ask(ExamAnswer{.number = 1});
  CHECK(until(peer.io, [&] { return peer.links->counters().refused > before; }));
}

TEST_CASE("an examiner dials the ports of the host that has asked and tells what it met") {
  asio::io_context io;
  Examiner examiner(io, {},
                    {.wall_us = [] { return std::uint64_t{5}; },
                     .offer = [](ExamAnswer& answer) { answer.lane = 9; }});
  tcp::acceptor open(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  tcp::acceptor closed(io, tcp::endpoint(asio::ip::address_v4::loopback(), 0));
  const std::uint16_t closed_port = closed.local_endpoint().port();
  closed.close();
  std::vector<ExamAnswer> answers;
  const auto keep = [&](const ExamAnswer& answer) { answers.push_back(answer); };
  examiner.examine(
      "127.0.0.1",
      {.number = 3, .control_port = open.local_endpoint().port(), .lane_port = closed_port}, keep);
  CHECK(answers.empty());
  REQUIRE(until(io, [&] { return answers.size() == 1; }));
  CHECK(answers[0].number == 3);
  CHECK(answers[0].wall_us == 5);
  CHECK(answers[0].control_port == DialOutcome::connected);
  CHECK(answers[0].lane_port == DialOutcome::refused);
  CHECK(answers[0].lane == 0);

  // If no ports are to be dialled, the answer comes at once.
  examiner.examine("127.0.0.1", {.wants_echo = true}, keep);
  REQUIRE(answers.size() == 2);
  CHECK(answers[1].lane == 9);
  CHECK(answers[1].control_port == DialOutcome::not_asked);

  // A source that is not an address is not looked up.
  examiner.examine("localhost", {.control_port = 1}, keep);
  REQUIRE(answers.size() == 3);
  CHECK_FALSE(answers[2].refusal.empty());
}

TEST_CASE("a ledger is told to who asks for it and fits into a frame") {
  asio::io_context io;
  std::size_t most = 0;
  Examiner examiner(io, {},
                    {.wall_us = [] { return std::uint64_t{0}; },
                     .offer = [](ExamAnswer&) {},
                     .ledger =
                         [&](std::size_t bytes_max) {
                           most = bytes_max;
                           return std::string(bytes_max - 1, 'x') + "y";
                         }});
  ExamAnswer answer;
  const auto keep = [&](const ExamAnswer& given) { answer = given; };
  examiner.examine("127.0.0.1", {.number = 1}, keep);
  CHECK(answer.ledger.empty());
  examiner.examine("127.0.0.1", {.number = 2, .wants_ledger = true}, keep);
  REQUIRE(most > 32 * 1024);
  answer.refusal = std::string(256, 'r');
  const Decoded decoded = decode(encode(answer));
  REQUIRE(decoded.frame);
  std::string text;
  for (const std::string& piece : std::get<ExamAnswer>(*decoded.frame).ledger) text += piece;
  CHECK(text.size() == most);
  CHECK(text.back() == 'y');
}

TEST_CASE("an examiner has a bounded number of dials under way") {
  asio::io_context io;
  Examiner examiner(io, {.dials_max = 3},
                    {.wall_us = [] { return std::uint64_t{0}; }, .offer = [](ExamAnswer&) {}});
  int refused = 0, answered = 0;
  for (int i = 0; i < 4; ++i) {
    examiner.examine(
        "127.0.0.1", {.control_port = 1, .lane_port = 2},
        [&](const ExamAnswer& answer) { ++(answer.refusal.empty() ? answered : refused); });
  }
  CHECK(refused == 3);
  CHECK(until(io, [&] { return answered == 1; }));
}

TEST_CASE("a lane that is offered for a measurement returns what is sent and is one at a time") {
  asio::io_context io;
  const auto folder = std::filesystem::temp_directory_path();
  BulkLanes lanes(io,
                  {.listen_host = "127.0.0.1",
                   .lent = nullptr,
                   .security = BulkLanes::Security::tls,
                   .socket_folder = folder},
                  {.block = [](PeerId, const Block&) {},
                   .place = {},
                   .message = [](const Envelope&) {},
                   .lost = [](PeerId) {},
                   .refused = [](PeerId) {},
                   .fact = [](const Fact&) {},
                   .send_invite = [](PeerId, const LaneInvite&) { return false; }});
  ExamAnswer offer, second;
  lanes.offer_echo(offer);
  REQUIRE(offer.lane != 0);
  lanes.offer_echo(second);
  CHECK(second.lane == 0);
  CHECK(second.lanes == offer.lanes);

  LaneHandshake doors(
      io, {.local = false},
      {.accepted = [](const auto&, const ConnectionPtr&) {}, .fact = [](const Fact&) {}});
  ConnectionPtr lane;
  LaneInvite invite{.lane = offer.lane, .token = offer.token};
  invite.address = offer.lanes;
  doors.expect(offer.lane, offer.token);
  doors.dial(invite, [&](ConnectionPtr opened) { lane = std::move(opened); });
  REQUIRE(until(io, [&] { return lane != nullptr; }));
  CHECK(lane->kind == "tls");
  std::vector<std::byte> sent(300'000), back(sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i % 251);
  std::size_t got = 0;
  lane->write(asio::buffer(sent), [](asio::error_code, std::size_t) {});
  const std::function<void()> read = [&] {
    lane->read_some(std::span(back).subspan(got), [&](asio::error_code error, std::size_t n) {
      got += n;
      if (!error && got < back.size()) read();
    });
  };
  read();
  REQUIRE(until(io, [&] { return got == sent.size(); }));
  CHECK(back == sent);
  lane->close();
  CHECK(until(io, [&] {
    lanes.offer_echo(second);
    return second.lane != 0;
  }));
}

}  // namespace gv
