// Opening lanes: the TCP options at both ends, and names with several addresses.
#include "net/lane_handshake.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "net/descriptor.hpp"
#include "tests/temporary_folder.hpp"

namespace gv {
namespace {

constexpr auto patience = std::chrono::seconds(20);
constexpr std::size_t held_max = 400;  ///< The most connections kept open, to save descriptors.

std::string congestion_control(int socket) {
  std::array<char, 17> name{};
  socklen_t size = name.size() - 1;
  REQUIRE(::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size) == 0);
  return name.data();
}

int option(int socket, int level, int name) {
  int value = 0;
  socklen_t size = sizeof value;
  REQUIRE(::getsockopt(socket, level, name, &value, &size) == 0);
  return value;
}
/// The receive buffer's size. The system reports twice the requested size.
int receive_buffer(int socket) { return option(socket, SOL_SOCKET, SO_RCVBUF); }
/// True if the program has set the size, so that the system no longer adapts it.
bool buffers_are_fixed(int socket) { return option(socket, SOL_SOCKET, SO_BUF_LOCK) != 0; }
/// The largest size that the system allows.
int receive_buffer_max() {
  int bytes = 0;
  std::ifstream file("/proc/sys/net/core/rmem_max");
  return file >> bytes ? bytes : std::numeric_limits<int>::max();
}

/// A peer that listens on `listen`, and one that dials it at `name` from the address `from`.
class Dialling {
  asio::io_context io_;  ///< Must outlive the connections.

 public:
  Dialling(const std::string& name, const std::string& from,
           const std::string& listen = "127.0.0.1")
      : inside_(io_, {.listen_host = listen, .local = false, .plain = true},
                {.accepted = [this](const auto&,
                                    ConnectionPtr connection) { accepted = std::move(connection); },
                 .fact = [](const Fact&) {}}),
        outside_(
            io_, {.dial_from = from, .local = false, .plain = true},
            {.accepted = [](const auto&, const ConnectionPtr&) {}, .fact = [](const Fact&) {}}) {
    LaneInvite invite{.lane = 7, .token = {1, 2, 3}};
    inside_.expect(invite.lane, invite.token);
    outside_.expect(invite.lane, invite.token);
    const std::string listening = inside_.listening();
    REQUIRE(listening.find('*') == std::string::npos);
    invite.address = name + listening.substr(listening.rfind(':'));
    outside_.dial(invite, [this](ConnectionPtr connection) { dialled = std::move(connection); });
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!(accepted && dialled) && std::chrono::steady_clock::now() < end) {
      io_.run_one_for(std::chrono::milliseconds(50));
    }
  }

  ConnectionPtr accepted;
  ConnectionPtr dialled;

 private:
  LaneHandshake inside_;
  LaneHandshake outside_;
};

}  // namespace

TEST_CASE("lanes of a peer that listens on any address are dialled at its addresses") {
  const Dialling lane("127.0.0.1", "127.0.0.1", "*");
  CHECK((lane.accepted && lane.dialled));
}

TEST_CASE("TCP lanes begin unpaced, and only between hosts are they left to the system then") {
  const Descriptor fresh(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const std::string usual = congestion_control(fresh.get());
  const bool one_host = GENERATE(true, false);
  const Dialling lane("127.0.0.1", one_host ? "127.0.0.1" : "127.0.0.2");
  REQUIRE((lane.accepted && lane.dialled));
  for (const ConnectionPtr& end : {lane.accepted, lane.dialled}) {
    const int socket = end->socket.native_handle();
    CHECK(congestion_control(socket) == "reno");
    end->tune();
    CHECK(congestion_control(socket) == (one_host ? "reno" : usual));
    CHECK(buffers_are_fixed(socket) == one_host);
    if (one_host) CHECK(receive_buffer(socket) == 2 * std::min(768 << 10, receive_buffer_max()));
  }
}

namespace {

/// A listener for lanes, and strangers that connect to it and send `first`.
class Beset {
  asio::io_context io_;  ///< Must outlive the connections.

 public:
  Beset()
      : inside_(io_, {.listen_host = "127.0.0.1", .local = false},
                {.accepted = [this](const auto&, const ConnectionPtr&) { ++accepted; },
                 .fact = [](const Fact&) {}}),
        outside_(
            io_, {.local = false},
            {.accepted = [](const auto&, const ConnectionPtr&) {}, .fact = [](const Fact&) {}}) {}

  /// Opens `count` more connections and keeps them open.
  void beset(int count, const std::string& first) {
    const std::string listening = inside_.listening();
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(listening.substr(10))));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (int i = 0; i < count; ++i) {
      // The socket must not block, because the system lets few connections in while no partner is
      // expected.
      Descriptor stranger(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      const int failed = ::connect(stranger.get(), reinterpret_cast<sockaddr*>(&to), sizeof to);
      REQUIRE((failed == 0 || errno == EINPROGRESS));
      static_cast<void>(::send(stranger.get(), first.data(), first.size(), MSG_NOSIGNAL));
      held_.push_back(std::move(stranger));
      if (held_.size() > held_max) held_.pop_front();
    }
  }

  /// Expects a partner that never dials.
  void expect() { inside_.expect(++lane_, {4, 5, 6}); }

  /// True if a lane opens with the first invitation while strangers keep connecting.
  bool opens(const std::string& first) {
    LaneInvite invite{.lane = ++lane_, .token = {1, 2, 3}};
    inside_.expect(invite.lane, invite.token);
    outside_.expect(invite.lane, invite.token);
    invite.address = inside_.listening();
    bool is_over = false;
    bool is_open = false;
    const int before = accepted;
    outside_.dial(invite, [&](const ConnectionPtr& connection) {
      is_over = true;
      is_open = connection != nullptr;
    });
    auto last = std::chrono::steady_clock::now();
    until([&] {
      // Open a thousand connections a second. After a delay of this process, do not catch up.
      if (std::chrono::steady_clock::now() - last >= std::chrono::milliseconds(1)) {
        beset(1, first);
        last = std::chrono::steady_clock::now();
      }
      return is_over && (!is_open || accepted > before);
    });
    return is_open && accepted > before;
  }

  template <class Condition>
  bool until(Condition holds) {
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!holds() && std::chrono::steady_clock::now() < end) {
      io_.run_one_for(std::chrono::milliseconds(1));
      inside_.tidy_up();
      outside_.tidy_up();
    }
    return holds();
  }

  void turn() { io_.run_for(std::chrono::milliseconds(1)); }

  std::uint64_t refused() const { return inside_.refused(); }
  int accepted = 0;

 private:
  LaneHandshake inside_;
  LaneHandshake outside_;
  std::uint64_t lane_ = 0;
  std::deque<Descriptor> held_;
};

}  // namespace

TEST_CASE("lanes open while any number of strangers hold connections that say little or nothing") {
  const std::string first = GENERATE("", "\x16", "\x16\x03\x01\x02");
  Beset port;
  port.expect();
  port.beset(300, first);
  for (int i = 0; i < 20; ++i) CHECK(port.opens(first));
  CHECK(port.accepted == 20);
}

TEST_CASE("a port accepts few connections while it expects no partner and one that it expects") {
  const std::string nonsense = "\x17";  // The listener closes the connection at once.
  Beset port;
  const auto began = std::chrono::steady_clock::now();
  while (std::chrono::steady_clock::now() - began < std::chrono::milliseconds(300)) {
    port.beset(20, nonsense);
    port.turn();
  }
  const auto tenths = (std::chrono::steady_clock::now() - began) / std::chrono::milliseconds(100);
  CHECK(port.refused() > 0);
  CHECK(port.refused() <= 16 * static_cast<std::uint64_t>(tenths + 2));
  CHECK(port.opens(nonsense));
}

TEST_CASE("strangers lose their connections to the port in a few seconds") {
  Beset port;
  port.beset(40, "");
  CHECK(port.until([&] { return port.refused() == 40; }));
}

TEST_CASE("peers of one host meet in a folder whose path is too long for a socket") {
  const TemporaryFolder folder;
  const std::filesystem::path deep = folder.path() / std::string(150, 'd') / std::string(150, 'e');
  asio::io_context io;
  ConnectionPtr accepted;
  ConnectionPtr dialled;
  {
    LaneHandshake inside(
        io, {.remote = false, .socket_folder = deep},
        {.accepted = [&](const auto&, ConnectionPtr came) { accepted = std::move(came); },
         .fact = [](const Fact&) {}});
    LaneHandshake outside(
        io, {.remote = false, .socket_folder = deep},
        {.accepted = [](const auto&, const ConnectionPtr&) {}, .fact = [](const Fact&) {}});
    LaneInvite invite{.lane = 7, .token = {1, 2, 3}};
    inside.describe(invite);
    inside.expect(invite.lane, invite.token);
    outside.expect(invite.lane, invite.token);
    CHECK(std::filesystem::path(invite.unix_path).parent_path() == deep);
    bool is_over = false;
    outside.dial(invite, [&](ConnectionPtr came) {
      dialled = std::move(came);
      is_over = true;
    });
    const auto end = std::chrono::steady_clock::now() + patience;
    while (!(accepted && is_over) && std::chrono::steady_clock::now() < end) {
      io.run_one_for(std::chrono::milliseconds(50));
    }
    CHECK(accepted);
    REQUIRE(dialled);
    CHECK(std::string(dialled->kind) == "unix");
  }
  CHECK(std::filesystem::is_empty(deep));
}

TEST_CASE("of a name's addresses the one that answers is dialled") {
  // On most hosts this name has two addresses, and nothing listens on the second.
  const Dialling lane("localhost", "127.0.0.1");
  CHECK((lane.accepted && lane.dialled));
}

}  // namespace gv
