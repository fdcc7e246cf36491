// IPv4 and IPv6 addresses: their hosts, and the sources to which connections are attributed.
#include "net/host_address.hpp"

#include <arpa/inet.h>

#include <asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstring>
#include <string>

#include "net/connection_source.hpp"
#include "net/control_links.hpp"

namespace gv {
namespace {

std::string source_of_v6(const char* text) {
  sockaddr_storage address{};
  auto& v6 = reinterpret_cast<sockaddr_in6&>(address);
  v6.sin6_family = AF_INET6;
  REQUIRE(inet_pton(AF_INET6, text, &v6.sin6_addr) == 1);
  return source_of(address);
}

std::string source_of_v4(const char* text) {
  sockaddr_storage address{};
  auto& v4 = reinterpret_cast<sockaddr_in&>(address);
  v4.sin_family = AF_INET;
  REQUIRE(inet_pton(AF_INET, text, &v4.sin_addr) == 1);
  return source_of(address);
}

}  // namespace

TEST_CASE("the host of an address has one text however it is written") {
  CHECK(host_of("192.0.2.1:7000") == "192.0.2.1");
  CHECK(host_of("node-1.example:7000") == "node-1.example");
  CHECK(host_of("[2001:0DB8::0:1]:7000") == "2001:db8::1");
  CHECK(host_of("[::]:0") == "::");
  CHECK(plain_host("::ffff:192.0.2.1") == "192.0.2.1");
  CHECK(is_any_host("[::]:7000"));
  CHECK(is_any_host("0.0.0.0:7000"));
  CHECK_FALSE(is_any_host("[::1]:7000"));
}

TEST_CASE("the port of an address is read whole or not at all") {
  CHECK(port_number_of("192.0.2.1:7000") == 7000);
  CHECK(port_number_of("[2001:db8::1]:7000") == 7000);
  for (const char* none : {"", "7000", "node", "node:", "node:7000x", "node:70000", "[::1]"}) {
    CHECK(port_number_of(none) == 0);
  }
}

TEST_CASE("a host gets its brackets once") {
  CHECK(bracketed("2001:db8::1") == "[2001:db8::1]");
  CHECK(bracketed("[2001:db8::1]") == "[2001:db8::1]");
  CHECK(bracketed("192.0.2.1") == "192.0.2.1");
  CHECK(bracketed("node-1.example") == "node-1.example");
}

TEST_CASE("connections of IPv6 count for their network and those of IPv4 for their address") {
  CHECK(source_of_v6("2001:db8::1") == source_of_v6("2001:db8::ffff:2"));
  CHECK(source_of_v6("2001:db8::1") != source_of_v6("2001:db8:0:1::1"));
  // A socket for both families shows IPv4 addresses in mapped form. They must not all count as one
  // source.
  CHECK(source_of_v6("::ffff:192.0.2.1") == source_of_v4("192.0.2.1"));
  CHECK(source_of_v6("::ffff:192.0.2.1") != source_of_v6("::ffff:192.0.2.2"));
}

TEST_CASE("links come up over IPv6 and over IPv4 to a peer that listens on both") {
  using namespace std::chrono_literals;
  const std::string dialled = GENERATE("[::1]", "127.0.0.1");
  asio::io_context io;
  const KeyPair a = generate_key_pair(), b = generate_key_pair();
  int contacts = 0;
  std::vector<LaneInvite> invites;
  const auto callbacks = [&] {
    return ControlLinks::Callbacks{
        .message = [](const Envelope&) {},
        .invite = [&](PeerId, const LaneInvite& invite) { invites.push_back(invite); },
        .contact = [&](PeerId) { ++contacts; },
        .restarted = [](PeerId) {},
        .fact = [](const Fact&) {}};
  };
  ControlLinks listener(io,
                        {.identity = a,
                         .name = "a",
                         .authorized = {{.name = "b", .key = b.public_key}},
                         .listen = "[::]:0",
                         .advertise = "[::1]:0",
                         .session = 1},
                        callbacks());
  CHECK(listener.advertised().starts_with("[::1]:"));
  const std::string port = listener.listening().substr(listener.listening().rfind(':'));
  ControlLinks dialler(
      io,
      {.identity = b,
       .name = "b",
       .authorized = {{.name = "a", .key = a.public_key, .address = dialled + port}},
       .session = 2},
      callbacks());
  dialler.join("a@" + dialled + port);
  const auto until = [&](auto holds) {
    const auto end = std::chrono::steady_clock::now() + 20s;
    while (!holds() && std::chrono::steady_clock::now() < end) io.run_one_for(5ms);
    return holds();
  };
  REQUIRE(until([&] { return contacts == 2; }));
  // The source of a frame is an address in text form.
  LaneInvite invite{.lane = 5};
  invite.address = dialled + ":7001";
  REQUIRE(dialler.send(peer_id(a.public_key), invite));
  REQUIRE(until([&] { return invites.size() == 1; }));
  CHECK(invites[0].address == dialled + ":7001");
}

}  // namespace gv
