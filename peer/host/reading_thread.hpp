// The thread that reads training data from files while the worker trains.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace gv {

/// Runs work on its own thread, one after the other.
class ReadingThread {
 public:
  ReadingThread();

  /// Adds work, which must not throw, behind the earlier work. The returned function waits until it
  /// has ended, and may be called as long as this object lives. This is what RunAside asks for.
  std::function<void()> start(std::function<void()> work);

  /// Finishes the work that has begun, and drops the rest. No thread may wait for it.
  ~ReadingThread();

 private:
  void run(std::stop_token stop);

  std::mutex mutex_;
  std::condition_variable_any started_;  ///< Wakes the thread.
  std::condition_variable ended_;        ///< Wakes threads that wait for work.
  std::deque<std::function<void()>> waiting_;
  std::uint64_t started_count_ = 0;
  std::uint64_t ended_count_ = 0;
  std::jthread thread_;  ///< Last member: stops before the others are destroyed.
};

}  // namespace gv
