// Waiting for what comes within microseconds.
#pragma once

#include <asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <thread>

namespace gv {

/// Longest time to wait awake, about twice what it takes to be woken up.
inline constexpr std::chrono::microseconds awake_max{100};

/// As run_one(), but at first without sleep: to be put to sleep and woken up takes some 40 us, on a
/// virtual machine most of all, and is several times what a message within one host takes. Whoever
/// else wants the processor meanwhile gets it.
inline std::size_t run_one_awake(asio::io_context& io) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point end = Clock::now() + awake_max;
  while (Clock::now() < end) {
    if (io.poll_one() > 0) return 1;
    if (io.stopped()) return 0;
    std::this_thread::yield();
  }
  return io.run_one();
}

}  // namespace gv
