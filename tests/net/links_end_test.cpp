// How control links end while strangers go on connecting.
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

#include "net/control_links.hpp"

namespace gv {

using namespace std::chrono_literals;

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
  // Each connection causes two reports. ZeroMQ holds 2,000, and its thread then waits for room.
  for (int i = 0; i < 1300; ++i) {
    asio::ip::tcp::socket stranger(*io);
    stranger.connect(endpoint);
    // This is a greeting of ZeroMQ that breaks off.
    asio::write(stranger, asio::buffer("\xff\0\0", 3));
  }
  // If the end hangs, only the thread does, and the test fails.
  std::promise<void> ended;
  std::future<void> end = ended.get_future();
  std::thread([io, gone = std::move(server), ended = std::move(ended)]() mutable {
    gone.reset();
    ended.set_value();
  }).detach();
  CHECK(end.wait_for(30s) == std::future_status::ready);
}

}  // namespace gv
