// How control links end while strangers go on connecting, and what they do when few descriptors are
// left.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "net/control_links.hpp"
#include "net/descriptor.hpp"
#include "net/host_address.hpp"
#include "net/tcp_port.hpp"
#include "tests/net/copied_descriptors.hpp"

namespace gv {

using namespace std::chrono_literals;

namespace {

std::uint16_t own_port(const Descriptor& descriptor) {
  ::sockaddr_in own{};
  ::socklen_t length = sizeof own;
  const bool is_named =
      ::getsockname(descriptor.get(), reinterpret_cast<::sockaddr*>(&own), &length) == 0;
  return is_named && own.sin_family == AF_INET ? ntohs(own.sin_port) : std::uint16_t{0};
}

/// True if the socket listens or has a connection that neither side has ended.
bool is_in_use(const Descriptor& descriptor) {
  ::tcp_info info{};
  ::socklen_t length = sizeof info;
  REQUIRE(::getsockopt(descriptor.get(), IPPROTO_TCP, TCP_INFO, &info, &length) == 0);
  return info.tcpi_state == TCP_LISTEN || info.tcpi_state == TCP_ESTABLISHED;
}

}  // namespace

TEST_CASE("links end although thousands of reports about connections were not read") {
  const auto io = std::make_shared<asio::io_context>();
  const KeyPair own = generate_key_pair();
  auto server = std::make_unique<ControlLinks>(
      *io,
      ControlLinks::Options{.identity = generate_key_pair(),
                            .name = "server",
                            .authorized = {{.name = "own", .key = own.public_key}},
                            .listen = "127.0.0.1:0",
                            .session = 1},
      ControlLinks::Callbacks{.message = [](const Envelope&) {},
                              .invite = [](PeerId, const LaneInvite&) {},
                              .contact = [](PeerId) {},
                              .restarted = [](PeerId) {},
                              .fact = [](const Fact&) {}});
  const std::string listening = server->listening();
  const asio::ip::tcp::endpoint endpoint(
      asio::ip::make_address("127.0.0.1"),
      static_cast<std::uint16_t>(std::stoi(listening.substr(listening.rfind(':') + 1))));
  // Each connection causes two reports. ZeroMQ queues at most 2,000 reports, and then its thread
  // waits for room.
  for (int i = 0; i < 1300; ++i) {
    asio::ip::tcp::socket stranger(*io);
    stranger.connect(endpoint);
    // These are the first bytes of a ZeroMQ greeting, and no more follow.
    asio::write(stranger, asio::buffer("\xff\0\0", 3));
  }
  // The links end on a separate thread, so if that thread hangs, the test fails and does not hang.
  std::promise<void> ended;
  std::future<void> end = ended.get_future();
  std::thread([io, gone = std::move(server), ended = std::move(ended)]() mutable {
    gone.reset();
    ended.set_value();
  }).detach();
  CHECK(end.wait_for(30s) == std::future_status::ready);
}

TEST_CASE("a port and its links end with their peer although a child made by fork has them") {
  asio::io_context io;
  const std::vector<KeyPair> keys = {generate_key_pair(), generate_key_pair()};
  const auto links_of = [&](std::size_t own, const std::string& listen) {
    return std::make_unique<ControlLinks>(
        io,
        ControlLinks::Options{.identity = keys[own],
                              .name = "own",
                              .authorized = {{.name = "other", .key = keys[1 - own].public_key}},
                              .listen = listen,
                              .session = own + 1},
        ControlLinks::Callbacks{.message = [](const Envelope&) {},
                                .invite = [](PeerId, const LaneInvite&) {},
                                .contact = [](PeerId) {},
                                .restarted = [](PeerId) {},
                                .fact = [](const Fact&) {}});
  };
  auto server = links_of(0, "127.0.0.1:0");
  const auto client = links_of(1, "");
  const std::string listening = server->listening();
  const auto port =
      static_cast<std::uint16_t>(std::stoi(listening.substr(listening.rfind(':') + 1)));
  client->dial(peer_id(keys[0].public_key), listening);
  const auto give_up = std::chrono::steady_clock::now() + 20s;
  while (!(server->is_linked(peer_id(keys[1].public_key)) &&
           client->is_linked(peer_id(keys[0].public_key))) &&
         std::chrono::steady_clock::now() < give_up) {
    io.run_one_for(10ms);
  }
  std::vector<Descriptor> of_child = copied_descriptors();
  std::erase_if(of_child,
                [&](const Descriptor& copy) { return own_port(copy) != port || !is_in_use(copy); });
  REQUIRE(of_child.size() >= 2);  // The port, and at least one link.
  server.reset();
  for (const Descriptor& copy : of_child) CHECK_FALSE(is_in_use(copy));
  CHECK_NOTHROW(open_tcp_port(io, "127.0.0.1", port, "--listen", ""));
}

TEST_CASE("links leave the last descriptors to lanes and checkpoints") {
  asio::io_context io;
  const KeyPair other = generate_key_pair();
  const PeerId peer = peer_id(other.public_key);
  std::string why;
  ControlLinks links(io,
                     {.identity = generate_key_pair(),
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
  links.set_address(peer, "127.0.0.1:1");
  std::vector<Descriptor> others;
  while (others.empty() || others.back().get() < 60) others.emplace_back(::dup(STDERR_FILENO));
  ::rlimit usual{};
  REQUIRE(::getrlimit(RLIMIT_NOFILE, &usual) == 0);
  const ::rlimit few{.rlim_cur = 71, .rlim_max = usual.rlim_max};
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &few) == 0);
  bool is_sent = false;
  SECTION("for a link") { is_sent = links.send(peer, Message(Ping{})); }
  SECTION("for an address to join") { links.join("127.0.0.1:1"); }
  REQUIRE(::setrlimit(RLIMIT_NOFILE, &usual) == 0);
  CHECK_FALSE(is_sent);
  CHECK(why == "too few files may be open to dial it");
  CHECK(links.send(peer, Message(Ping{})));
}

}  // namespace gv
