// The thread that owns the replica and runs its jobs, so that the host's loop never waits.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "peer/node/replica.hpp"

namespace gv {

/// Calls `work` with 0 to count - 1. Call 0 runs on the caller's thread, every other on a thread of
/// its own. Returns when all have finished.
void run_in_threads(std::size_t count, const std::function<void(std::size_t)>& work);

/// Runs jobs on its own thread, one after the other. After each it prefetches the next batches.
class Worker {
 public:
  /// Called on the worker's thread when a job is done.
  using Done = std::function<void(JobDone)>;
  /// Writes a checkpoint of the replica; returns the reason of a failure, or an empty string.
  /// Called on the worker's thread: exchanges continue from the last snapshot, however slow the
  /// disk is.
  using Save = std::function<std::string(const Replica&, const task::Save&)>;
  /// Called on the worker's thread when a job has failed with an exception; `why` is its text. No
  /// other job begins after that.
  using Failed = std::function<void(std::string why)>;

  Worker(std::unique_ptr<Replica> replica, Save save, Done done, Failed failed);

  /// Waits until all posted jobs are done, or until one fails.
  ~Worker();

  /// Queues a job.
  void post(Job job);

 private:
  void run(std::stop_token stop);

  std::unique_ptr<Replica> replica_;
  Save save_;
  Done done_;
  Failed failed_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Job> jobs_;
  std::jthread thread_;  ///< Last member: stops before the others are destroyed.
};

}  // namespace gv
