// A loop that busy-polls runs the same handlers as one that sleeps, and yields to other programs.
#include "peer/host/adaptive_spin_wait.hpp"

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <catch2/catch.hpp>
#include <chrono>

namespace gv {

using namespace std::chrono_literals;
using TimePoint = AdaptiveSpinWait::Clock::time_point;

TEST_CASE("a loop that waits awake runs one handler at a time") {
  asio::io_context io;
  AdaptiveSpinWait spin_wait;
  int ran = 0;
  asio::post(io, [&] { ++ran; });
  asio::post(io, [&] { ++ran; });
  CHECK(run_one_polling(io, spin_wait) == 1);
  CHECK(ran == 1);
  CHECK(run_one_polling(io, spin_wait) == 1);
  CHECK(ran == 2);
  CHECK(run_one_polling(io, spin_wait) == 0);
}

TEST_CASE("a loop that waited awake in vain sleeps until something comes") {
  asio::io_context io;
  AdaptiveSpinWait spin_wait;
  asio::steady_timer timer(io, 20 * AdaptiveSpinWait::awake_max);
  bool rang = false;
  timer.async_wait([&](const asio::error_code& error) { rang = !error; });
  CHECK(run_one_polling(io, spin_wait) == 1);
  CHECK(rang);
}

TEST_CASE("a thread does not poll for what holds already") {
  AdaptiveSpinWait spin_wait;
  int looks = 0;
  poll_until(spin_wait, [&] { return ++looks > 0; });
  CHECK(looks == 1);
}

TEST_CASE("a thread polls until something holds") {
  int looks = 0;
  // If other programs keep the processor busy, polling may end before the third look.
  for (int attempt = 0; attempt < 1000 && looks < 3; ++attempt) {
    AdaptiveSpinWait spin_wait;
    looks = 0;
    poll_until(spin_wait, [&] { return ++looks == 3; });
  }
  CHECK(looks == 3);
}

TEST_CASE("a thread polls for a while at most") {
  AdaptiveSpinWait spin_wait;
  const TimePoint began = AdaptiveSpinWait::Clock::now();
  poll_until(spin_wait, [] { return false; });
  CHECK(AdaptiveSpinWait::Clock::now() - began >= AdaptiveSpinWait::awake_max);
}

TEST_CASE("a loop that is stopped is waited for no longer") {
  asio::io_context io;
  AdaptiveSpinWait spin_wait;
  const auto work = asio::make_work_guard(io);
  io.stop();
  CHECK(run_one_polling(io, spin_wait) == 0);
}

TEST_CASE("beside programs that compute it is slept, for longer each time that this is found") {
  AdaptiveSpinWait spin_wait;
  TimePoint now{1h};
  const auto give_way = [&](auto lasts) {
    spin_wait.gave_way(now, now + lasts);
    now += lasts;
  };
  for (int count = 0; count < 10; ++count) {
    CHECK(spin_wait.is_awake(now));
    give_way(4ms);
  }
  for (const auto pause : {100ms, 200ms, 400ms, 800ms, 1600ms, 3200ms, 3200ms}) {
    CHECK_FALSE(spin_wait.is_awake(now));
    CHECK_FALSE(spin_wait.is_awake(now + pause - 1ms));
    now += pause;
    CHECK(spin_wait.is_awake(now));
    give_way(4ms);
    CHECK(spin_wait.is_awake(now));
    give_way(4ms);
  }
  // No other program was found for a long time, so other programs count as gone, and detection
  // starts from the beginning.
  now += 3200ms + 3201ms;
  for (int count = 0; count < 10; ++count) {
    CHECK(spin_wait.is_awake(now));
    give_way(4ms);
  }
  CHECK_FALSE(spin_wait.is_awake(now + 99ms));
  CHECK(spin_wait.is_awake(now + 100ms));
}

TEST_CASE("beside peers that have work, now and then for long, it is waited awake") {
  AdaptiveSpinWait spin_wait;
  TimePoint now{1h};
  for (int count = 0; count < 10000; ++count) {
    const auto lasts = count % 200 == 199 ? 4ms : 150us;
    spin_wait.gave_way(now, now + lasts);
    now += lasts;
    REQUIRE(spin_wait.is_awake(now));
  }
}

}  // namespace gv
