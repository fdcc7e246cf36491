// A loop that waits awake runs the same handlers as one that sleeps.
#include "peer/run_awake.hpp"

#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/steady_timer.hpp>
#include <catch2/catch.hpp>

namespace gv {

TEST_CASE("a loop that waits awake runs one handler at a time") {
  asio::io_context io;
  int ran = 0;
  asio::post(io, [&] { ++ran; });
  asio::post(io, [&] { ++ran; });
  CHECK(run_one_awake(io) == 1);
  CHECK(ran == 1);
  CHECK(run_one_awake(io) == 1);
  CHECK(ran == 2);
  CHECK(run_one_awake(io) == 0);
}

TEST_CASE("a loop that waited awake in vain sleeps until something comes") {
  asio::io_context io;
  asio::steady_timer timer(io, 20 * awake_max);
  bool rang = false;
  timer.async_wait([&](const asio::error_code& error) { rang = !error; });
  CHECK(run_one_awake(io) == 1);
  CHECK(rang);
}

TEST_CASE("a loop that is stopped is waited for no longer") {
  asio::io_context io;
  const auto work = asio::make_work_guard(io);
  io.stop();
  CHECK(run_one_awake(io) == 0);
}

}  // namespace gv
