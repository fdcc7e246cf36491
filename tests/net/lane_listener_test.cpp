// Connections that reach a lane's port but are not accepted as lanes.
#include "net/lane_listener.hpp"

#include <unistd.h>

#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/write.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <optional>

#include "net/descriptor.hpp"
#include "net/host_address.hpp"
#include "net/tcp_port.hpp"

namespace gv {

TEST_CASE("a connection that closes without having sent anything is no newcomer at a lane's port") {
  using namespace std::chrono_literals;
  asio::io_context io;
  asio::ip::tcp::acceptor port = open_tcp_port(io, "127.0.0.1", 0, "--lane-port 0", "");
  const asio::ip::tcp::endpoint endpoint = port.local_endpoint();
  int newcomers = 0;
  LaneListener listener(io, Descriptor(port.release()), {},
                        [&](const ConnectionPtr&) { ++newcomers; });
  const auto until = [&](auto holds) {
    const auto give_up = std::chrono::steady_clock::now() + 10s;
    while (!holds() && std::chrono::steady_clock::now() < give_up) io.run_one_for(5ms);
    return holds();
  };
  asio::ip::tcp::socket silent(io), other(io);
  silent.connect(endpoint);
  silent.close();
  CHECK(until([&] { return listener.refused() == 1; }));
  CHECK(newcomers == 0);
  other.connect(endpoint);
  asio::write(other, asio::buffer("x", 1));
  CHECK(until([&] { return newcomers == 1; }));
  CHECK(listener.refused() == 1);
}

TEST_CASE("a port for lanes is free after its end although a child made by fork has a copy of it") {
  asio::io_context io;
  asio::ip::tcp::acceptor port = open_tcp_port(io, "127.0.0.1", 0, "--lane-port 0", "");
  const std::uint16_t number = port.local_endpoint().port();
  const Descriptor of_child(::dup(port.native_handle()));
  std::optional<LaneListener> listener;
  listener.emplace(io, Descriptor(port.release()), LaneListener::Options{},
                   [](const ConnectionPtr&) {});
  CHECK_THROWS_AS(open_tcp_port(io, "127.0.0.1", number, "--lane-port", ""), PortTaken);
  listener.reset();
  CHECK_NOTHROW(open_tcp_port(io, "127.0.0.1", number, "--lane-port", ""));
}

}  // namespace gv
