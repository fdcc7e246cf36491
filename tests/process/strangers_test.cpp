// Strangers and garbage at both ports of a real peer: nothing gets in, nothing is disturbed.
#include <sodium.h>
#include <zmq.h>

#include <algorithm>
#include <asio/connect.hpp>
#include <asio/io_context.hpp>
#include <asio/ip/tcp.hpp>
#include <asio/read.hpp>
#include <asio/write.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "tests/process/swarm.hpp"

namespace gv {
namespace {

using asio::ip::tcp;
using namespace std::chrono_literals;

tcp::endpoint endpoint_of(const std::string& address) {
  const auto colon = address.rfind(':');
  return {asio::ip::make_address(address.substr(0, colon)),
          static_cast<std::uint16_t>(std::stoi(address.substr(colon + 1)))};
}

/// Sends `bytes` to the port and waits for the other side to close the connection. Returns false if
/// it stays open.
bool is_hung_up_on(const std::string& address, const std::string& bytes) {
  asio::io_context io;
  tcp::socket socket(io);
  socket.connect(endpoint_of(address));
  asio::error_code ignored;
  asio::write(socket, asio::buffer(bytes), ignored);
  std::array<char, 4096> answer;
  bool closed = false;
  std::function<void()> drain = [&] {
    socket.async_read_some(asio::buffer(answer), [&](asio::error_code error, std::size_t) {
      if (error) {
        closed = true;
      } else {
        drain();
      }
    });
  };
  drain();
  io.run_for(10s);
  return closed;
}

/// Connections to several addresses. Each sends either nothing, or `first` followed by one byte at
/// a time. If the other side closes a connection, it is soon reopened.
class Idlers {
 public:
  Idlers(const std::vector<std::string>& addresses, std::size_t each) {
    for (const std::string& address : addresses) {
      for (std::size_t i = 0; i < each; ++i) {
        lines_.push_back(std::make_unique<Line>(io_, endpoint_of(address)));
        if (i % 2 == 1) lines_.back()->first = "\x16\x03";
      }
    }
    for (auto& line : lines_) open(*line);
  }

  /// Runs the handlers that are due.
  void poll() {
    io_.restart();
    io_.poll();
    const auto now = Clock::now();
    for (auto& line : lines_) {
      if (line->connected) longest = std::max(longest, now - line->opened);
    }
    if (now - dripped_ < 200ms) return;
    dripped_ = now;
    asio::error_code ignored;
    for (auto& line : lines_) {
      if (line->is_over) open(*line);
      const bool drips = line->connected && !line->first.empty();
      if (drips) line->socket.write_some(asio::buffer("\0", 1), ignored);
    }
  }

  using Clock = std::chrono::steady_clock;
  Clock::duration longest{};  ///< The longest time for which one of the connections stayed open.
  std::size_t hung_up = 0;

 private:
  struct Line {
    Line(asio::io_context& io, tcp::endpoint where) : socket(io), to(std::move(where)) {}

    tcp::socket socket;
    tcp::endpoint to;
    std::string first;
    Clock::time_point opened;
    bool connected = false;
    bool is_over = false;
    char byte = 0;
  };

  void open(Line& line) {
    asio::error_code ignored;
    line.connected = line.is_over = false;
    line.socket.close(ignored);
    // A listener may keep us waiting without accepting, which must not delay the other connections.
    line.socket.async_connect(line.to, [this, &line](asio::error_code error) {
      line.is_over = bool(error);
      if (error) return;
      asio::error_code failed;
      line.opened = Clock::now();
      line.connected = true;
      line.socket.write_some(asio::buffer(line.first), failed);
      drain(line);
    });
  }

  void drain(Line& line) {
    line.socket.async_read_some(asio::buffer(&line.byte, 1),
                                [this, &line](asio::error_code error, std::size_t) {
                                  if (error == asio::error::operation_aborted) return;
                                  if (!error) {
                                    drain(line);
                                    return;
                                  }
                                  ++hung_up;
                                  line.connected = false;
                                  line.is_over = true;
                                });
  }

  asio::io_context io_;
  std::vector<std::unique_ptr<Line>> lines_;
  Clock::time_point dripped_ = Clock::now();
};

std::vector<std::string> ports_of(Swarm& swarm, std::size_t number) {
  const auto self = swarm.status(number)["self"];
  return {self.value("listening", ""), self.value("lanes", "")};
}

std::uint64_t committed(Swarm& swarm, std::size_t number) {
  const nlohmann::json document = swarm.status(number);
  return document.is_null() ? 0 : document["exchanges"].value("committed", 0ULL);
}

std::string noise(std::uint64_t seed, std::size_t size) {
  Rng rng(seed);
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(rng.below(256));
  return bytes;
}

}  // namespace

TEST_CASE("garbage on either port is hung up on and disturbs nothing", "[process]") {
  Swarm swarm(2, endless_config("[network]\nlane = \"tls\"\n"));
  swarm.start_all();
  REQUIRE(swarm.exchanges_go_on(0));
  const auto self = swarm.status(0)["self"];
  for (const char* port : {"listening", "lanes"}) {
    const std::string address = self.value(port, "");
    REQUIRE_FALSE(address.empty());
    CHECK(is_hung_up_on(address, "GET / HTTP/1.1\r\nHost: x\r\n\r\n"));
    CHECK(is_hung_up_on(address, "G" + noise(1, 300)));
    CHECK(is_hung_up_on(address, std::string("\x16\x03\x01\x02\x00\x01", 6) + noise(2, 600)));
    CHECK(is_hung_up_on(address, noise(3, 100000)));
    // The peer does not wait forever for a stranger that says nothing.
    CHECK(is_hung_up_on(address, ""));
  }
  CHECK(swarm.is_running(0));
  CHECK(swarm.exchanges_go_on(0));
  CHECK(swarm.status(0)["members"].size() == 2);
}

TEST_CASE("a stranger without an authorised key gets nothing in on the control port", "[process]") {
  Swarm swarm(2, endless_config("[network]\nlane = \"tls\"\n"));
  swarm.start_all();
  REQUIRE(swarm.exchanges_go_on(0));
  const std::string address = "tcp://" + swarm.status(0)["self"].value("listening", "");
  // The stranger even knows the server's public key, which is not secret.
  const auto server = load_key_pair(swarm.folder(0) / "key");
  REQUIRE(server.problems.empty());
  const CurveKey server_key = curve_keys(server.pair).public_key;
  // Every peer first connects to its own port, and that connection is not counted.
  CHECK(swarm.status(0).value("refused_links", 99ULL) == 0);
  void* context = zmq_ctx_new();
  for (int attempt = 0; attempt < 20; ++attempt) {
    const CurveKeyPair stranger = curve_keys(generate_key_pair());
    void* socket = zmq_socket(context, ZMQ_DEALER);
    const int none = 0;
    const int patience_ms = 300;
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    zmq_setsockopt(socket, ZMQ_RCVTIMEO, &patience_ms, sizeof patience_ms);
    zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server_key.data(), 32);
    zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, stranger.public_key.data(), 32);
    zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, stranger.secret_key.data(), 32);
    REQUIRE(zmq_connect(socket, address.c_str()) == 0);
    zmq_send(socket, "hello", 5, ZMQ_DONTWAIT);
    char answer[16];
    CHECK(zmq_recv(socket, answer, sizeof answer, 0) == -1);
    zmq_close(socket);
  }
  zmq_ctx_term(context);
  CHECK(eventually([&] { return swarm.status(0).value("refused_links", 0ULL) > 0; }, 10s));
  CHECK(swarm.status(0)["members"].size() == 2);
  CHECK(swarm.exchanges_go_on(0));
}

TEST_CASE("a peer taken off the allow-list is cut off when the others read it again", "[process]") {
  Swarm swarm(3, endless_config("[network]\nlane = \"tls\"\n"));
  swarm.start_all();
  REQUIRE(swarm.exchanges_go_on(0));
  swarm.change_list(
      [](const std::string& line) { return line.starts_with("peer-2 ") ? std::string() : line; });
  swarm.signal(0, SIGHUP);
  swarm.signal(1, SIGHUP);
  CHECK(eventually(
      [&] {
        return swarm.status(0)["members"].size() == 2 && swarm.status(1)["members"].size() == 2;
      },
      10s));
  CHECK(swarm.exchanges_go_on(0));
  CHECK(swarm.status(0)["members"].size() == 2);
}

TEST_CASE("a peer that still reads its data when SIGHUP comes reads its allow-list again later",
          "[process]") {
  std::string config = endless_config();
  config.replace(config.find("samples = 4000"), 14, "samples = 2000000");
  Swarm swarm(3, config);
  const std::filesystem::path folder = swarm.folder(0);
  ChildProcess peer({grapevine_binary(), "peer", swarm.config_file().string(), "--folder",
                     folder.string(), "--key", (folder / "key").string(), "--authorized",
                     swarm.authorized_file().string(), "--listen", "127.0.0.1:0"},
                    folder / "output.log");
  REQUIRE(eventually([&] { return std::filesystem::exists(folder / "lock"); }, 30s));
  swarm.change_list(
      [](const std::string& line) { return line.starts_with("peer-2 ") ? std::string() : line; });
  peer.signal(SIGHUP);
  REQUIRE(swarm.status(0).is_null());
  INFO(swarm.output(0));
  CHECK(eventually([&] { return swarm.events(0, "allow_list_read").size() == 1; }, 60s));
  CHECK_FALSE(peer.ending().has_value());
}

TEST_CASE("an allow-list that was cut off is refused and the one before kept", "[process]") {
  Swarm swarm(2, endless_config("[network]\nlane = \"tls\"\n"));
  swarm.start_all();
  REQUIRE(swarm.exchanges_go_on(0));
  std::ofstream(swarm.authorized_file()) << "";
  swarm.signal(0, SIGHUP);
  REQUIRE(eventually([&] { return !swarm.events(0, "allow_list_refused").empty(); }, 10s));
  CHECK(swarm.output(0).find("own key is no longer in it") != std::string::npos);
  CHECK(swarm.exchanges_go_on(0));
  CHECK(swarm.events(0, "member_removed").empty());
}

TEST_CASE("a source that dies in the middle of a download is replaced by another", "[process]") {
  // The model is so large that a download takes many blocks.
  std::string config = endless_config("[network]\nlane = \"tls\"\n");
  config.replace(config.find("hidden = [32]"), 13, "hidden = [2048, 2048]");
  config.replace(config.find("period_steps = 64"), 17, "period_steps = 2");
  config += "[membership]\nprobe_period_s = 0.5\nprobe_timeout_s = 0.25\nsuspicion_min_s = 1\n";
  Swarm swarm(3, config);
  swarm.start(0, {.extra = {"--wait-for", "2"}});
  swarm.start(1, {.extra = {"--wait-for", "2"}});
  REQUIRE(eventually([&] { return swarm.step(0) > 40 && swarm.step(1) > 40; }, 120s));
  swarm.start(2);
  std::string source;
  REQUIRE(eventually(
      [&] {
        const auto asked = swarm.events(2, "fetch_asked");
        if (!asked.empty()) source = asked.front().value("name", "");
        return !asked.empty();
      },
      60s));
  const std::size_t victim = source == "peer-0" ? 0 : 1;
  swarm.kill(victim);
  REQUIRE(eventually([&] { return !swarm.events(2, "model_fetched").empty(); }, 120s));
  INFO(swarm.events(2, "fetch_source_lost").size());
  CHECK(swarm.events(2, "model_fetched").front().value("name", "") != source);
  CHECK(eventually([&] { return swarm.step(2) > 40; }, 60s));
}

TEST_CASE("a port scan stops no exchange and leaves no descriptor behind", "[process]") {
  Swarm swarm(2, endless_config("[network]\nlane = \"tls\"\n"));
  swarm.start_all();
  REQUIRE(swarm.exchanges_go_on(0));
  const std::size_t before = swarm.descriptors(0);
  const auto ports = ports_of(swarm, 0);
  asio::io_context io;
  const auto scan = [&] {
    // The lane port accepts 64 connections at once. The system delays the next ones by a second.
    for (int connection = 0; connection < 300; ++connection) {
      tcp::socket socket(io);
      socket.connect(endpoint_of(ports[static_cast<std::size_t>(connection % 2)]));
      // Half of the connections end with a reset, as a port scanner's do.
      socket.set_option(asio::socket_base::linger(connection % 4 < 2, 0));
    }
  };
  // Each window lasts a second, and at least ten periods of the peer's exchanges. So an exchange
  // falls into it even on a busy machine, unless the scan holds exchanges up.
  constexpr std::uint64_t steps_of_window = 10 * 64;
  scan();
  for (int window = 0; window < 3; ++window) {
    INFO("window " << window);
    const std::uint64_t exchanges = committed(swarm, 0);
    const std::uint64_t step = swarm.step(0);
    REQUIRE(exchanges > 0);
    REQUIRE(step > 0);
    const auto over = std::chrono::steady_clock::now() + 1s;
    REQUIRE(eventually(
        [&] {
          scan();
          return std::chrono::steady_clock::now() > over && swarm.step(0) >= step + steps_of_window;
        },
        30s));
    CHECK(committed(swarm, 0) > exchanges);
  }
  CHECK(eventually([&] { return swarm.descriptors(0) <= before + 2; }, 10s));
  CHECK(swarm.status(0)["members"].size() == 2);
  CHECK(swarm.exchanges_go_on(0));
}

TEST_CASE("connections that say nothing or little are hung up on and keep nobody out",
          "[process]") {
  Swarm swarm(3, endless_config("[network]\nlane = \"tls\"\n"));
  swarm.start(0, {.extra = {"--wait-for", "2"}});
  swarm.start(1, {.extra = {"--wait-for", "2"}});
  REQUIRE(swarm.exchanges_go_on(0));
  Idlers idlers(ports_of(swarm, 0), 200);
  const auto began = Idlers::Clock::now();
  const auto meanwhile = [&](const std::function<bool()>& holds) {
    return [&, holds] {
      idlers.poll();
      return holds();
    };
  };
  CHECK(eventually(meanwhile([&] { return idlers.hung_up > 400; }), 20s));
  swarm.start(2);
  CHECK(eventually(meanwhile([&] { return swarm.state_of(0, 2) == "alive"; }), 10s));
  // The newcomer downloads its model over a lane although the port is under attack.
  CHECK(eventually(meanwhile([&] { return !swarm.events(2, "model_fetched").empty(); }), 20s));
  const std::uint64_t before = committed(swarm, 0);
  CHECK(eventually(meanwhile([&] { return committed(swarm, 0) > before + 5; }), 30s));
  // The peer drops connections whose handshake or proof takes more than three seconds.
  CHECK(eventually(meanwhile([&] { return Idlers::Clock::now() > began + 7s; }), 20s));
  INFO(std::chrono::duration<double>(idlers.longest).count() << " s at most");
  CHECK(idlers.longest < 6s);
  CHECK(swarm.status(0)["members"].size() == 3);
}

TEST_CASE("a newcomer that only dials gets its lanes while silent connections hold all ports",
          "[process]") {
  const std::string mode = GENERATE(as<std::string>{}, "gossip", "allreduce");
  std::string config = endless_config("[network]\nlane = \"tls\"\n");
  config.replace(0, 6, "[run]\nmode = \"" + mode + "\"\n");
  const std::string of_gossip = "[gossip]\nperiod_steps = 64\n";
  if (mode != "gossip") config.erase(config.find(of_gossip), of_gossip.size());
  Swarm swarm(3, config);
  for (const std::size_t number : {0U, 1U}) swarm.start(number, {.extra = {"--wait-for", "2"}});
  REQUIRE(swarm.go_on({0, 1}));
  Idlers idlers({ports_of(swarm, 0)[1], ports_of(swarm, 1)[1]}, 100);
  const auto began = Idlers::Clock::now();
  eventually([&] { return idlers.poll(), Idlers::Clock::now() > began + 2s; }, 10s);
  swarm.start(2, {.listen = ""});
  CHECK(eventually([&] { return idlers.poll(), swarm.step(2) > 0; }, 30s));
  const std::uint64_t step = swarm.step(2);
  CHECK(eventually([&] { return idlers.poll(), swarm.step(2) > step + 100; }, 30s));
  if (mode == "gossip") {
    CHECK(eventually([&] { return idlers.poll(), committed(swarm, 2) > 5; }, 30s));
  }
}

TEST_CASE("strangers take a few of few descriptors and leave status and newcomers theirs",
          "[process]") {
  Swarm swarm(3, endless_config("[network]\nlane = \"tls\"\n"));
  swarm.start(0, {.prefix = {"/bin/sh", "-c", "ulimit -n 100; exec \"$@\"", "sh"},
                  .extra = {"--wait-for", "2"}});
  swarm.start(1, {.extra = {"--wait-for", "2"}});
  REQUIRE(swarm.exchanges_go_on(0));
  const auto ports = ports_of(swarm, 0);
  const std::uint64_t step = swarm.step(0);
  {
    Idlers idlers({ports[0], ports[0], ports[1]}, 100);
    const auto began = Idlers::Clock::now();
    int answers = 0;
    int questions = 0;
    eventually(
        [&] {
          idlers.poll();
          ++questions;
          answers += swarm.status(0).is_null() ? 0 : 1;
          return Idlers::Clock::now() > began + 4s;
        },
        10s);
    CHECK(answers == questions);
    CHECK(swarm.descriptors(0) < 95);
    swarm.start(2);
    CHECK(eventually([&] { return idlers.poll(), swarm.state_of(0, 2) == "alive"; }, 10s));
  }
  CHECK(swarm.step(0) > step);
  CHECK(eventually([&] { return swarm.descriptors(0) < 60; }, 10s));
  for (const std::string& port : ports) CHECK(is_hung_up_on(port, "GET / HTTP/1.1\r\n\r\n"));
  CHECK(swarm.exchanges_go_on(0));
  CHECK(swarm.exchanges_go_on(2));
}

TEST_CASE("a peer that may not have enough descriptors says so and does not begin", "[process]") {
  Swarm swarm(1, endless_config());
  swarm.start(0, {.prefix = {"/bin/sh", "-c", "ulimit -n 20; exec \"$@\"", "sh"}});
  const Ending ending = swarm.wait_for_end(0, 20s);
  CHECK(ending.exit_code == 2);
  CHECK(swarm.output(0).find("open files: this process may have 20") != std::string::npos);
}

TEST_CASE("two processes with one key leave the others training", "[process]") {
  Swarm swarm(4, endless_config("[network]\nlane = \"tls\"\n"));
  for (std::size_t number = 0; number < 3; ++number) {
    swarm.start(number, {.extra = {"--wait-for", "3"}});
  }
  REQUIRE(swarm.exchanges_go_on(0));
  std::filesystem::copy_file(swarm.folder(2) / "key", swarm.folder(3) / "key",
                             std::filesystem::copy_options::overwrite_existing);
  swarm.start(3);
  REQUIRE(eventually([&] { return !swarm.events(0, "key_used_twice").empty(); }, 20s));
  for (const std::size_t number : {0U, 1U}) {
    CHECK(swarm.exchanges_go_on(number));
    CHECK(swarm.is_running(number));
    CHECK(swarm.status(number)["members"].size() == 3);
    CHECK(swarm.events(number, "member_dead").empty());
  }
}

}  // namespace gv
