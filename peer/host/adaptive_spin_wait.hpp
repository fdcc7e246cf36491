// Busy polling for messages that arrive within microseconds.
#pragma once

#include <algorithm>
#include <asio/io_context.hpp>
#include <chrono>
#include <cstddef>
#include <thread>

namespace gv {

/// Decides whether busy polling is useful. A polling peer yields the processor between two polls.
/// Other peers give the processor back quickly, because they too only poll, or compute for a
/// moment. If peers outnumber processors, getting it back may still take milliseconds. A CPU-bound
/// program, however, keeps the processor for its whole slice of 3 ms or more. A sleeping peer would
/// get it back sooner than a yielding one. So polling stops, with exponential back-off, if more
/// than a quarter of the yielded time went into such slices. Does no input or output.
class AdaptiveSpinWait {
 public:
  using Clock = std::chrono::steady_clock;

  /// The longest time to poll. It is about twice as long as a wake-up takes.
  static constexpr std::chrono::microseconds awake_max{100};
  /// A program that keeps the processor for this long at a time is CPU-bound.
  static constexpr std::chrono::milliseconds slice_min{2};
  /// How much yielded time is needed before the first decision, and before a decision soon after
  /// polling has resumed.
  static constexpr std::chrono::milliseconds judged_first{40};
  static constexpr std::chrono::milliseconds judged_again{8};
  /// First and longest pause between periods of polling. At the longest pause, new attempts take 8
  /// ms in every 3.2 s.
  static constexpr std::chrono::milliseconds pause_first{100};
  static constexpr std::chrono::milliseconds pause_max{3200};

  bool is_awake(Clock::time_point now) const { return now >= asleep_until_; }

  /// Call after the processor was yielded at `away` and regained at `back`.
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
  Clock::duration given_{};  ///< Time yielded since `judged_from_`.
  /// The part of the yielded time that other programs used in whole slices.
  Clock::duration lost_{};
  Clock::time_point asleep_until_{};
  Clock::duration pause_{};
};

/// Calls `holds` until it returns true, at least once. Yields the processor to other programs
/// between calls. Gives up after AdaptiveSpinWait::awake_max, or after the first call while polling
/// is stopped.
template <class Holds>
void poll_until(AdaptiveSpinWait& spin_wait, Holds holds) {
  using Clock = AdaptiveSpinWait::Clock;
  Clock::time_point now = Clock::now();
  const Clock::time_point end = now + AdaptiveSpinWait::awake_max;
  while (!holds() && now < end && spin_wait.is_awake(now)) {
    const Clock::time_point away = Clock::now();
    std::this_thread::yield();
    now = Clock::now();
    spin_wait.gave_way(away, now);
  }
}

/// Like run_one(), but polls first, and yields the processor to other programs while it polls.
/// Going to sleep and waking up takes about 40 us, mainly on virtual machines. This is several
/// times as long as a message takes within one host.
inline std::size_t run_one_polling(asio::io_context& io, AdaptiveSpinWait& spin_wait) {
  std::size_t ran = 0;
  poll_until(spin_wait, [&] { return (ran = io.poll_one()) > 0 || io.stopped(); });
  return ran > 0 ? ran : io.run_one();
}

}  // namespace gv
