// The proxy that stands between real processes, tested with sockets of one process.
#include <array>
#include <asio/io_context.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "sim/local/fault_proxy.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;
using asio::ip::tcp;
using Clock = std::chrono::steady_clock;

constexpr auto patience = 20s;

/// One end of a connection: the bytes it received, and whether it ended.
struct End {
  explicit End(asio::io_context& io) : socket(io) {}

  void read() {
    socket.async_read_some(asio::buffer(buffer), [this](asio::error_code error, std::size_t n) {
      got.append(buffer.data(), n);
      last = Clock::now();
      if (error) {
        ended = true;
      } else {
        read();
      }
    });
  }
  /// Writes `text` after everything written earlier.
  void write(std::string text) {
    auto owned = std::make_shared<std::string>(std::move(text));
    asio::async_write(socket, asio::buffer(*owned),
                      [owned, this](asio::error_code, std::size_t n) { written += n; });
  }

  tcp::socket socket;
  std::array<char, 65536> buffer{};
  std::string got;
  std::size_t written = 0;
  Clock::time_point last{};
  bool ended = false;
};

/// A proxy through which peer 0 dials peer 1.
class Rig {
 public:
  explicit Rig(std::size_t held_bytes_max = std::size_t{1} << 20)
      : acceptor_(io_, tcp::endpoint(asio::ip::make_address("127.0.0.1"), 0)),
        proxy(io_,
              {.sources = {{asio::ip::make_address("127.1.0.1"), 0},
                           {asio::ip::make_address("127.1.0.2"), 1}},
               .held_bytes_max = held_bytes_max},
              [this](std::size_t from, std::size_t) { return from == 0 ? forth : back; }) {
    front_ = {
        asio::ip::make_address("127.0.0.1"),
        proxy.forward(1, {asio::ip::make_address("127.0.0.1"), 0}, acceptor_.local_endpoint())};
    accept();
  }

  /// Makes a connection. Its other end appears in `accepted` when the proxy passes it on.
  End& dial(const std::string& from = "127.1.0.1") {
    dialled.push_back(std::make_unique<End>(io_));
    End& end = *dialled.back();
    end.socket.open(tcp::v4());
    end.socket.bind({asio::ip::make_address(from), 0});
    end.socket.connect(front_);
    end.read();
    return end;
  }

  template <class Condition>
  bool until(Condition holds, Clock::duration limit = patience) {
    const auto give_up = Clock::now() + limit;
    while (!holds()) {
      if (Clock::now() > give_up) return false;
      io_.run_one_for(10ms);
    }
    return true;
  }
  /// Runs the event loop for `time`.
  void idle(Clock::duration time) {
    until([] { return false; }, time);
  }

 private:
  void accept() {
    accepted_next_ = std::make_unique<End>(io_);
    acceptor_.async_accept(accepted_next_->socket, [this](asio::error_code error) {
      if (error) return;
      accepted.push_back(std::move(accepted_next_));
      accepted.back()->read();
      accept();
    });
  }

  asio::io_context io_;
  tcp::acceptor acceptor_;
  tcp::endpoint front_;
  std::unique_ptr<End> accepted_next_;

 public:
  LinkState forth;  ///< State of the link from 0 to 1. After a change, refresh() the proxy.
  LinkState back;
  FaultProxy proxy;
  std::vector<std::unique_ptr<End>> dialled;
  std::vector<std::unique_ptr<End>> accepted;
};

std::string pattern(std::size_t size) {
  std::string text(size, 0);
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>(i * 31 + i / 251);
  return text;
}

double seconds_since(Clock::time_point then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

}  // namespace

TEST_CASE("the proxy passes bytes both ways whole and in order and then the end") {
  Rig rig;
  End& here = rig.dial();
  const std::string model = pattern(3 << 20);
  here.write(model);
  REQUIRE(rig.until([&] { return rig.accepted.size() == 1; }));
  End& there = *rig.accepted[0];
  there.write("back");
  REQUIRE(rig.until([&] { return there.got.size() == model.size() && here.got == "back"; }));
  CHECK(there.got == model);
  here.socket.shutdown(tcp::socket::shutdown_send);
  REQUIRE(rig.until([&] { return there.ended; }));
  CHECK_FALSE(here.ended);
  there.socket.close();
  REQUIRE(rig.until([&] { return here.ended; }));
  REQUIRE(rig.until([&] { return rig.proxy.open_connections() == 0; }));
  CHECK(rig.proxy.counters().connections == 1);
  CHECK(rig.proxy.counters().broken == 0);
  CHECK(rig.proxy.counters().bytes == model.size() + 4);
}

TEST_CASE("latency holds every byte back for its time and no longer") {
  Rig rig;
  rig.forth.quality.latency = 150ms;
  End& here = rig.dial();
  const auto sent = Clock::now();
  here.write("x");
  REQUIRE(rig.until([&] { return !rig.accepted.empty() && rig.accepted[0]->got == "x"; }));
  CHECK(seconds_since(sent) >= 0.150);
  CHECK(seconds_since(sent) < 0.250);
  // The opposite direction is a separate link.
  const auto answered = Clock::now();
  rig.accepted[0]->write("y");
  REQUIRE(rig.until([&] { return here.got == "y"; }));
  CHECK(seconds_since(answered) < 0.1);
}

TEST_CASE("bandwidth is shared by the connections of a pair and a short message is not starved") {
  Rig rig;
  rig.forth.quality.bandwidth = 8;  // A megabyte a second.
  End& large = rig.dial();
  const auto began = Clock::now();
  large.write(pattern(600 << 10));
  REQUIRE(rig.until([&] { return !rig.accepted.empty() && rig.accepted[0]->got.size() > 50000; }));
  End& small = rig.dial();
  const auto asked = Clock::now();
  small.write("?");
  REQUIRE(rig.until([&] { return rig.accepted.size() == 2 && rig.accepted[1]->got == "?"; }));
  CHECK(seconds_since(asked) < 0.2);
  REQUIRE(rig.until([&] { return rig.accepted[0]->got.size() == 600 << 10; }));
  // 614,400 bytes take 0.61 s at a megabyte a second. A loaded machine may take longer.
  CHECK(seconds_since(began) > 0.55);
  CHECK(seconds_since(began) < 0.9);
}

TEST_CASE("a cut holds what is sent and even the end and healing delivers it in order") {
  Rig rig;
  End& here = rig.dial();
  here.write("before ");
  REQUIRE(rig.until([&] { return !rig.accepted.empty() && rig.accepted[0]->got == "before "; }));
  End& there = *rig.accepted[0];
  rig.forth.cut = rig.back.cut = true;
  rig.proxy.refresh();
  const std::string during = pattern(100000);
  here.write(during);
  there.write("back");
  REQUIRE(rig.until([&] { return here.written == 7 + during.size() && there.written == 4; }));
  here.socket.shutdown(tcp::socket::shutdown_send);
  // A connection that a peer dials now opens, but nothing passes through it.
  End& late = rig.dial();
  late.write("late");
  REQUIRE(rig.until([&] { return rig.proxy.bytes_waiting() == during.size() + 8; }));
  rig.idle(100ms);
  CHECK(there.got == "before ");
  CHECK(here.got.empty());
  CHECK_FALSE(there.ended);
  CHECK(rig.accepted.size() == 1);
  CHECK(rig.proxy.counters().bytes_held == during.size() + 8);
  rig.forth.cut = rig.back.cut = false;
  rig.proxy.refresh();
  REQUIRE(rig.until([&] { return there.ended && here.got == "back"; }));
  CHECK(there.got == "before " + during);
  REQUIRE(rig.until([&] { return rig.accepted.size() == 2 && rig.accepted[1]->got == "late"; }));
}

TEST_CASE("a cut one way leaves the other way open") {
  Rig rig;
  End& here = rig.dial();
  REQUIRE(rig.until([&] { return rig.accepted.size() == 1; }));
  End& there = *rig.accepted[0];
  rig.forth.cut = true;
  rig.proxy.refresh();
  here.write("held");
  there.write("heard");
  REQUIRE(rig.until([&] { return here.got == "heard"; }));
  CHECK(there.got.empty());
}

TEST_CASE("during a cut nobody notices that the other side is gone") {
  Rig rig;
  End& here = rig.dial();
  REQUIRE(rig.until([&] { return rig.accepted.size() == 1; }));
  rig.forth.cut = rig.back.cut = true;
  rig.proxy.refresh();
  rig.accepted[0]->socket.set_option(asio::socket_base::linger(true, 0));
  rig.accepted[0]->socket.close();  // Closing the socket resets the connection.
  rig.idle(100ms);
  CHECK_FALSE(here.ended);
  rig.forth.cut = rig.back.cut = false;
  rig.proxy.refresh();
  REQUIRE(rig.until([&] { return here.ended; }));
  REQUIRE(rig.until([&] { return rig.proxy.open_connections() == 0; }));
  CHECK(rig.proxy.counters().broken == 1);
}

TEST_CASE("what is held is bounded and all of it still arrives") {
  constexpr std::size_t bound = 64 << 10;
  Rig rig(bound);
  End& here = rig.dial();
  REQUIRE(rig.until([&] { return rig.accepted.size() == 1; }));
  rig.forth.cut = true;
  rig.proxy.refresh();
  const std::string model = pattern(16 << 20);
  here.write(model);
  REQUIRE(rig.until([&] { return rig.proxy.bytes_waiting() == bound; }));
  rig.idle(100ms);
  CHECK(rig.proxy.bytes_waiting() == bound);
  // The sender is also blocked, as on a real network.
  CHECK(here.written == 0);
  rig.forth.cut = false;
  rig.proxy.refresh();
  REQUIRE(rig.until([&] { return rig.accepted[0]->got.size() == model.size(); }));
  CHECK(rig.accepted[0]->got == model);
}

TEST_CASE("corruption changes bytes and keeps their number") {
  Rig rig;
  rig.forth.quality.corrupt = 1;
  End& here = rig.dial();
  const std::string sent = pattern(5000);
  here.write(sent);
  REQUIRE(rig.until([&] { return !rig.accepted.empty() && rig.accepted[0]->got.size() == 5000; }));
  std::size_t changed = 0;
  for (std::size_t i = 0; i < sent.size(); ++i) changed += rig.accepted[0]->got[i] != sent[i];
  CHECK(changed >= 1);
  CHECK(changed == rig.proxy.counters().corrupted);
  here.socket.close();
  rig.accepted[0]->socket.close();
  REQUIRE(rig.until([&] { return rig.proxy.open_connections() == 0; }));
  CHECK(rig.proxy.counters().broken == 1);
}

TEST_CASE("the proxy ends the connections of who listens no more and of who is nobody") {
  Rig rig;
  End& stranger = rig.dial("127.0.0.1");
  REQUIRE(rig.until([&] { return stranger.ended; }));
  CHECK(rig.proxy.counters().refused == 1);
  FaultProxy& proxy = rig.proxy;
  End& here = rig.dial();
  REQUIRE(rig.until([&] { return rig.accepted.size() == 1; }));
  rig.accepted[0]->socket.close();
  REQUIRE(rig.until([&] { return here.ended; }));
  CHECK(proxy.counters().connections == 1);
}

}  // namespace gv
