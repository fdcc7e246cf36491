// Opening of lanes: the TCP options on both ends, and names with several addresses.
#include "net/lane_handshake.hpp"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <fstream>
#include <limits>
#include <string>
#include <utility>

#include "net/descriptor.hpp"

namespace gv {
namespace {

constexpr auto patience = std::chrono::seconds(20);

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
/// As the system reports it: twice the requested size.
int receive_buffer(int socket) { return option(socket, SOL_SOCKET, SO_RCVBUF); }
/// Whether the program has set the size, so that the system no longer changes it.
bool buffers_are_fixed(int socket) { return option(socket, SOL_SOCKET, SO_BUF_LOCK) != 0; }
/// Largest size that the system gives.
int receive_buffer_max() {
  int bytes = 0;
  std::ifstream file("/proc/sys/net/core/rmem_max");
  return file >> bytes ? bytes : std::numeric_limits<int>::max();
}

/// One peer that listens on 127.0.0.1 and one that dials it from there or from another address.
class Dialling {
  asio::io_context io_;  ///< Outlives the connections.

 public:
  Dialling(const std::string& name, const std::string& from)
      : inside_(io_, {.listen_host = "127.0.0.1", .local = false, .plain = true},
                {.accepted = [this](std::uint64_t,
                                    ConnectionPtr connection) { accepted = std::move(connection); },
                 .fact = [](const Fact&) {}}),
        outside_(
            io_, {.dial_from = from, .local = false, .plain = true},
            {.accepted = [](std::uint64_t, const ConnectionPtr&) {}, .fact = [](const Fact&) {}}) {
    LaneInvite invite{.lane = 7, .token = {1, 2, 3}};
    inside_.expect(invite.lane, invite.token);
    outside_.expect(invite.lane, invite.token);
    const std::string listening = inside_.listening();
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

TEST_CASE("of a name's addresses the one that answers is dialled") {
  // Most hosts have two addresses for it, and nothing listens on the other.
  const Dialling lane("localhost", "127.0.0.1");
  CHECK((lane.accepted && lane.dialled));
}

}  // namespace gv
