// Runs pieces of work in order, and counts them to know when each has ended.
#include "peer/host/reading_thread.hpp"

#include <utility>

namespace gv {

ReadingThread::ReadingThread() : thread_([this](std::stop_token stop) { run(stop); }) {}

ReadingThread::~ReadingThread() = default;

std::function<void()> ReadingThread::start(std::function<void()> work) {
  std::uint64_t number = 0;
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(work));
    number = ++started_count_;
  }
  started_.notify_one();
  return [this, number] {
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [&] { return ended_count_ >= number; });
  };
}

void ReadingThread::run(std::stop_token stop) {
  while (true) {
    std::function<void()> work;
    {
      std::unique_lock lock(mutex_);
      const bool has_work = started_.wait(lock, stop, [this] { return !waiting_.empty(); });
      if (!has_work || stop.stop_requested()) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    work();
    // Releases the function's captured values before other threads learn that the work has ended.
    work = nullptr;
    {
      const std::lock_guard lock(mutex_);
      ++ended_count_;
    }
    ended_.notify_all();
  }
}

}  // namespace gv
