// Waiting for what comes within microseconds.
#pragma once

#include <algorithm>
#include <asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <thread>

namespace gv {

/// Whether it is of use to wait awake. Whoever gives way to others gets the processor back soon if
/// they are peers like us, that wait too or have a moment's work; where they outnumber the
/// processors a moment now and then takes milliseconds. A program that computes keeps it for its
/// whole slice, 3 ms and more, every time, and whoever sleeps is given the processor sooner than
/// that. So when a quarter of the time that was given away went in such slices, it is slept for a
/// while, and for longer each time that this is found again. Pure.
class AdaptiveSpinWait {
 public:
  using Clock = std::chrono::steady_clock;

  /// Longest time to wait awake, about twice what it takes to be woken up.
  static constexpr std::chrono::microseconds awake_max{100};
  /// Others that have the processor for so long at a time compute.
  static constexpr std::chrono::milliseconds slice_min{2};
  /// So much time has to be given away before it is judged, and so much if it was found lately.
  static constexpr std::chrono::milliseconds judged_first{40};
  static constexpr std::chrono::milliseconds judged_again{8};
  /// How long it is slept first and at most: 8 ms in 3.2 s are lost to finding out again.
  static constexpr std::chrono::milliseconds pause_first{100};
  static constexpr std::chrono::milliseconds pause_max{3200};

  bool is_awake(Clock::time_point now) const { return now >= asleep_until_; }

  /// The processor was given away and came back.
  void gave_way(Clock::time_point away, Clock::time_point back) {
    if (given_ == Clock::duration{}) judged_from_ = away;
    given_ += back - away;
    if (back - away >= slice_min) lost_ += back - away;
    const bool lately = judged_from_ < asleep_until_ + pause_;
    if (given_ < (lately ? judged_again : judged_first)) return;
    const bool others_compute = 4 * lost_ > given_;
    given_ = lost_ = {};
    if (!others_compute) return;
    pause_ = lately ? std::min<Clock::duration>(2 * pause_, pause_max) : pause_first;
    asleep_until_ = back + pause_;
  }

 private:
  Clock::time_point judged_from_{};
  Clock::duration given_{};  ///< Since then,
  Clock::duration lost_{};   ///< and of that in whole slices.
  Clock::time_point asleep_until_{};
  Clock::duration pause_{};
};

/// As run_one(), but at first without sleep: to be put to sleep and woken up takes some 40 us, on a
/// virtual machine most of all, and is several times what a message within one host takes. Whoever
/// else wants the processor meanwhile gets it.
inline std::size_t run_one_polling(asio::io_context& io, AdaptiveSpinWait& spin_wait) {
  using Clock = AdaptiveSpinWait::Clock;
  Clock::time_point now = Clock::now();
  const Clock::time_point end = now + AdaptiveSpinWait::awake_max;
  while (now < end && spin_wait.is_awake(now)) {
    if (io.poll_one() > 0) return 1;
    if (io.stopped()) return 0;
    const Clock::time_point away = Clock::now();
    std::this_thread::yield();
    now = Clock::now();
    spin_wait.gave_way(away, now);
  }
  return io.run_one();
}

}  // namespace gv
