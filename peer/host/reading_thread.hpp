// The thread that reads training data from files while the worker trains.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace gv {

/// Runs pieces of work on a thread of its own, one after another.
class ReadingThread {
 public:
  ReadingThread();

  /// Queues work, which must not throw. The returned function waits until the work has ended, and
  /// may be called as long as this object lives. Matches RunAside.
  std::function<void()> start(std::function<void()> work);

  /// Finishes the current piece of work, and drops the others. No thread may still be waiting for a
  /// piece of work.
  ~ReadingThread();

 private:
  void run(std::stop_token stop);

  std::mutex mutex_;
  std::condition_variable_any started_;  ///< Wakes this object's thread.
  std::condition_variable ended_;        ///< Wakes threads that wait for work to end.
  std::deque<std::function<void()>> waiting_;
  std::uint64_t started_count_ = 0;
  std::uint64_t ended_count_ = 0;
  std::jthread thread_;  ///< The last member, so that it stops before the others are destroyed.
};

}  // namespace gv
