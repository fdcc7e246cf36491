// Faults that find no target are skipped with a reason, and the end of a fault ends what it did.
#include "sim/local/injector.hpp"

#include <asio/io_context.hpp>
#include <catch2/catch.hpp>
#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/temporary_folder.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// An injector of faults into two peers that have not started, and the messages that it logs.
class Injection {
 public:
  explicit Injection(const std::vector<FaultRule>& faults) {
    Scenario scenario;
    scenario.faults = faults;
    for (const char* name : {"peer-0", "peer-1"}) peers_.emplace_back(io_, 0, name, "", 1.0);
    injector_.emplace(
        io_, timeline(scenario, peers_.size(), 1h, Rng(1)), peers_,
        Injector::Calls{.start = [](std::size_t, bool) {},
                        .links = [](const FaultEvent&) {},
                        .switch_to = [](std::size_t, const std::string&) {},
                        .tell = [this](const std::string& line) { told += line + "\n"; }});
    injector_->begin();
  }

  Injector& injector() { return *injector_; }
  void run() { io_.run(); }
  std::string skipped() const {
    std::string text;
    for (const SkippedFault& one : injector_->skipped()) text += to_string(one) + "\n";
    return text;
  }

  std::string told;

 private:
  asio::io_context io_;
  std::deque<LaunchedPeer> peers_;
  std::optional<Injector> injector_;
};

PeerSet only(std::size_t peer) {
  PeerSet set;
  set.ranges = {{peer, peer}};
  return set;
}

}  // namespace

TEST_CASE("a fault of a peer that has not joined is skipped with the reason", "[unit]") {
  Injection injection({{.kind = FaultKind::kill, .peers = only(1)},
                       {.kind = FaultKind::resume, .peers = only(0)},
                       {.kind = FaultKind::join, .peers = only(0)}});
  injection.run();
  CHECK(injection.skipped() ==
        "kill at 0 s (peer-1 had not joined yet)\ncontinue at 0 s (peer-0 had not joined yet)\n");
  CHECK(injection.told ==
        "   0.0 s  kill 1: skipped, peer-1 had not joined yet\n"
        "   0.0 s  continue 0: skipped, peer-0 had not joined yet\n"
        "   0.0 s  join 0\n");
  CHECK(injection.injector().counts() == std::map<std::string, std::size_t>{{"join", 1}});
}

TEST_CASE("the end of a skipped fault is not told", "[unit]") {
  Injection injection({{.kind = FaultKind::kill, .lasts = 1ms, .peers = only(1)}});
  injection.run();
  CHECK(injection.skipped() == "kill at 0 s (peer-1 had not joined yet)\n");
  CHECK(injection.told == "   0.0 s  kill 1 for 0.001 s: skipped, peer-1 had not joined yet\n");
}

TEST_CASE("a fault that is due after the end of the run is skipped once however often it repeats",
          "[unit]") {
  Injection injection({{.kind = FaultKind::partition, .at = 60s, .every = 10s},
                       {.kind = FaultKind::stop, .at = 30s, .lasts = 1s}});
  injection.injector().cancel();
  injection.injector().cancel();
  injection.run();
  CHECK(injection.skipped() ==
        "stop at 30 s (the run ended first)\npartition at 60 s (the run ended first)\n");
}

TEST_CASE("a slowed peer runs on as soon as its fault ends however long it was to stand still",
          "[unit]") {
  const TemporaryFolder folder;
  asio::io_context io;
  LaunchedPeer peer(io, 0, "peer-0", folder.path(), 1.0);
  peer.start({"/bin/sleep", "0.3"});
  // The program is stopped before it ends, for longer than a clock can count.
  peer.slow(1, 1e-300);
  CHECK(io.poll() == 0);
  peer.slow_no_more(1);
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (peer.state() == LaunchedPeer::State::running &&
         std::chrono::steady_clock::now() < deadline) {
    io.restart();
    io.run_for(1ms);
    std::this_thread::yield();
  }
  CHECK(peer.state() == LaunchedPeer::State::ended);
}

}  // namespace gv
