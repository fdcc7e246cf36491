// The worker's loop.
#include "peer/host/worker.hpp"

#include <chrono>
#include <exception>
#include <utility>
#include <vector>

namespace gv {

void run_in_threads(std::size_t count, const std::function<void(std::size_t)>& work) {
  std::vector<std::jthread> others;
  for (std::size_t i = 1; i < count; ++i) others.emplace_back([&work, i] { work(i); });
  work(0);
}

Worker::Worker(std::unique_ptr<Replica> replica, Save save, Done done, Failed failed)
    : replica_(std::move(replica)),
      save_(std::move(save)),
      done_(std::move(done)),
      failed_(std::move(failed)),
      thread_([this](std::stop_token stop) { run(stop); }) {}

Worker::~Worker() = default;

void Worker::post(Job job) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(job));
  }
  wake_.notify_one();
}

void Worker::run(std::stop_token stop) {
  while (true) {
    Job job;
    {
      std::unique_lock lock(mutex_);
      if (!wake_.wait(lock, stop, [this] { return !jobs_.empty(); })) return;
      job = std::move(jobs_.front());
      jobs_.pop_front();
    }
    try {
      const auto begin = std::chrono::steady_clock::now();
      JobDone done = replica_->run(std::move(job));
      done.busy = std::chrono::duration_cast<Duration>(std::chrono::steady_clock::now() - begin);
      if (const auto* save = first_of<task::Save>(done.job.tasks)) {
        done.results.emplace_back(result::Saved{save_(*replica_, *save)});
      }
      done_(std::move(done));
      replica_->prefetch();
    } catch (const std::exception& error) {
      failed_(error.what());
      return;
    }
  }
}

}  // namespace gv
