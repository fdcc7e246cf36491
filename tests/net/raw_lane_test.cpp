// Lanes whose other end is a bare connection, which may read slowly or send bytes that no peer
// would send.
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "net/bulk_lanes.hpp"
#include "net/lane_handshake.hpp"
#include "net/lane_record.hpp"
#include "net/wire.hpp"
#include "tests/facts.hpp"
#include "tests/temporary_folder.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr PeerId partner{7};

std::uint16_t port_of(int socket, decltype(::getsockname)* name) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  return name(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? address.sin_port : 0;
}

void set_buffer(int socket, int which, int bytes) {
  REQUIRE(::setsockopt(socket, SOL_SOCKET, which, &bytes, sizeof bytes) == 0);
}

/// The lanes of one peer, with an open lane to `raw`.
class Lanes {
  TemporaryFolder folder_;
  asio::io_context io_;  ///< Must outlive the connections.

 public:
  explicit Lanes(RateLimit::Options messages_max, Duration progress_deadline = 5s)
      : doors_(io_, {.listen_host = "127.0.0.1", .local = false, .plain = true},
               {.accepted = [this](const auto&,
                                   ConnectionPtr connection) { raw = std::move(connection); },
                .fact = [](const Fact&) {}}),
        own(std::make_unique<BulkLanes>(io_,
                                        BulkLanes::Options{.trusted_network = true,
                                                           .lent = nullptr,
                                                           .security = BulkLanes::Security::plain,
                                                           .socket_folder = folder_.path(),
                                                           .progress_deadline = progress_deadline,
                                                           .messages = messages_max},
                                        callbacks())) {
    open();
  }

  /// Opens a lane, or a new one after the last was lost.
  void open() {
    raw.reset();
    const auto opened = count_of<LaneOpened>(facts);
    LaneInvite invite{.lane = ++lane_, .token = {1, 2, 3}};
    doors_.describe(invite);
    doors_.expect(invite.lane, invite.token);
    own->receive_invite(partner, invite);
    REQUIRE(until([&] { return raw && count_of<LaneOpened>(facts) > opened; }));
  }

  template <class Condition>
  bool until(Condition holds) {
    const auto end = Clock::now() + 20s;
    while (!holds() && Clock::now() < end) io_.run_one_for(10ms);
    return holds();
  }

  void write(RecordKind kind, std::span<const std::byte> content) {
    const RecordHeader header{.length = static_cast<std::uint32_t>(content.size()), .kind = kind};
    std::vector<std::byte> bytes(sizeof header + content.size());
    std::memcpy(bytes.data(), &header, sizeof header);
    std::ranges::copy(content, bytes.begin() + sizeof header);
    write(bytes);
  }
  void write(std::span<const std::byte> bytes) {
    REQUIRE(::send(raw->socket.native_handle(), bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
            static_cast<ssize_t>(bytes.size()));
  }

  /// The socket at the other end of `raw`.
  int own_socket() const {
    const int there = raw->socket.native_handle();
    for (int socket = 0; socket < 1024; ++socket) {
      if (port_of(socket, ::getsockname) == port_of(there, ::getpeername) &&
          port_of(socket, ::getpeername) == port_of(there, ::getsockname)) {
        return socket;
      }
    }
    return -1;
  }

  ConnectionPtr raw;
  std::vector<Fact> facts;
  std::vector<std::string> unsound;
  std::size_t messages = 0;
  std::size_t blocks = 0;
  std::function<std::span<std::byte>(std::uint64_t number)> place;
  std::vector<std::uint64_t> numbers;  ///< The numbers of the blocks that arrived.

 private:
  BulkLanes::Callbacks callbacks() {
    return {
        .block =
            [this](PeerId, const Block& block) {
              ++blocks;
              numbers.push_back(block.id.number);
            },
        .place = [this](PeerId, const TransferId& id, std::uint64_t,
                        std::size_t) { return place ? place(id.number) : std::span<std::byte>(); },
        .message = [this](const Envelope&) { ++messages; },
        .lost = [](PeerId) {},
        .refused = [](PeerId) {},
        .fact = [this](Fact fact) { facts.push_back(std::move(fact)); },
        .send_invite = [](PeerId, const LaneInvite&) { return false; },
        .unsound =
            [this](PeerId from, const std::string& why) {
              CHECK(from == partner);
              unsound.push_back(why);
            }};
  }

  std::uint64_t lane_ = 0;
  LaneHandshake doors_;

 public:
  std::unique_ptr<BulkLanes> own;
};

const RateLimit::Options no_limit{.per_second = 1e9, .burst = 1e9};

}  // namespace

TEST_CASE("a lane on which bytes flow stays however long one write takes") {
  Lanes lanes(no_limit, 1200ms);
  const int sending = lanes.own_socket();
  REQUIRE(sending >= 0);
  const int reading = lanes.raw->socket.native_handle();
  set_buffer(sending, SO_SNDBUF, 32 << 10);
  set_buffer(reading, SO_RCVBUF, 64 << 10);
  // A write contains up to two blocks, which take more than twice the deadline at this rate.
  constexpr double bytes_per_second = 192 << 10;
  const auto bytes = std::make_shared<std::vector<std::byte>>(4 << 20);
  lanes.own->send(
      {.to = partner, .id = TransferId{partner, 1, 1}, .payload = {bytes, std::span(*bytes)}});
  const auto began = Clock::now();
  std::size_t read = 0;
  std::vector<std::byte> into(8 << 10);
  CHECK(lanes.until([&] {
    const double allowed =
        bytes_per_second * std::chrono::duration<double>(Clock::now() - began).count();
    while (read + into.size() < allowed) {
      const auto got = ::recv(reading, into.data(), into.size(), MSG_DONTWAIT);
      if (got <= 0) break;
      read += static_cast<std::size_t>(got);
    }
    return read > 700'000 || count_of<LaneLost>(lanes.facts) > 0;
  }));
  CHECK(read > 700'000);
  CHECK(count_of<LaneLost>(lanes.facts) == 0);
}

TEST_CASE("a reader that takes nothing loses its lane") {
  Lanes lanes(no_limit, 500ms);
  const auto bytes = std::make_shared<std::vector<std::byte>>(16 << 20);
  lanes.own->send(
      {.to = partner, .id = TransferId{partner, 1, 1}, .payload = {bytes, std::span(*bytes)}});
  CHECK(lanes.until([&] { return count_of<LaneLost>(lanes.facts) == 1; }));
  CHECK(lanes.unsound.empty());
}

TEST_CASE("a flood of messages ends its lane and counts against the peer and blocks do not") {
  Lanes lanes({.per_second = 1e-6, .burst = 10});
  const std::vector<std::byte> block(100);
  const std::vector<std::byte> message = encode(Message(Ready{TransferId{partner, 1, 1}}));
  for (int i = 0; i < 50; ++i) lanes.write(RecordKind::block, block);
  for (int i = 0; i < 10; ++i) lanes.write(RecordKind::message, message);
  REQUIRE(lanes.until([&] { return lanes.blocks == 50 && lanes.messages == 10; }));
  CHECK(lanes.unsound.empty());
  lanes.write(RecordKind::message, message);
  REQUIRE(lanes.until([&] { return !lanes.unsound.empty(); }));
  CHECK(lanes.unsound == std::vector<std::string>{"a flood of messages"});
  CHECK(lanes.messages == 10);
  CHECK(count_of<LaneLost>(lanes.facts) == 1);
}

TEST_CASE("another lane gives a peer no more messages") {
  Lanes lanes({.per_second = 1e-6, .burst = 10});
  const std::vector<std::byte> message = encode(Message(Ready{TransferId{partner, 1, 1}}));
  for (int i = 0; i < 10; ++i) lanes.write(RecordKind::message, message);
  REQUIRE(lanes.until([&] { return lanes.messages == 10; }));
  lanes.raw->close();
  REQUIRE(lanes.until([&] { return count_of<LaneClosed>(lanes.facts) == 1; }));
  lanes.open();
  lanes.write(RecordKind::message, message);
  CHECK(lanes.until([&] { return !lanes.unsound.empty(); }));
  CHECK(lanes.messages == 10);
}

TEST_CASE("a block whose memory is taken back while it comes is left out, and the next one comes") {
  Lanes lanes(no_limit);
  std::vector<std::byte> wanted(30'000);
  std::vector<std::byte> bytes(sizeof(RecordHeader) + wanted.size(), std::byte{1});
  const auto set_number = [&](std::uint64_t number) {
    const RecordHeader header{.length = static_cast<std::uint32_t>(wanted.size()),
                              .number = number};
    std::memcpy(bytes.data(), &header, sizeof header);
  };
  bool is_taken_back = false;
  std::size_t asked = 0, asked_in_vain = 0;
  lanes.place = [&](std::uint64_t number) -> std::span<std::byte> {
    if (number == 2) return {};
    ++(is_taken_back ? asked_in_vain : asked);
    return is_taken_back ? std::span<std::byte>() : std::span(wanted);
  };
  const std::span<const std::byte> whole(bytes);
  // The reader has placed the first half of the block before the other half is sent.
  set_number(1);
  lanes.write(whole.first(bytes.size() / 2));
  REQUIRE(lanes.until([&] { return asked > 0 && wanted[wanted.size() / 3] == std::byte{1}; }));
  is_taken_back = true;
  std::ranges::fill(wanted, std::byte{});
  lanes.write(whole.subspan(bytes.size() / 2));
  set_number(2);
  lanes.write(whole);
  REQUIRE(lanes.until([&] { return !lanes.numbers.empty(); }));
  CHECK(asked_in_vain > 0);
  CHECK(lanes.numbers == std::vector<std::uint64_t>{2});
  // From the moment at which it is taken back, its owner may use the memory for other things.
  CHECK(std::ranges::all_of(wanted, [](std::byte byte) { return byte == std::byte{}; }));
  CHECK(lanes.unsound.empty());
}

TEST_CASE("bytes on a lane that no peer sends count against it") {
  Lanes lanes(no_limit);
  const std::vector<std::byte> nonsense(100, std::byte{0xff});
  const auto kind = GENERATE(0, 1, 2);
  CAPTURE(kind);
  if (kind == 0) lanes.write(RecordKind::message, nonsense);
  if (kind == 1) lanes.write(RecordKind::message, encode(Hello{.name = "x", .session = 1}));
  if (kind == 2) lanes.write(static_cast<RecordKind>(99), nonsense);
  REQUIRE(lanes.until([&] { return !lanes.unsound.empty(); }));
  CHECK(lanes.unsound.size() == 1);
  CHECK(count_of<LaneLost>(lanes.facts) == 1);
  CHECK(lanes.messages == 0);
}

}  // namespace gv
