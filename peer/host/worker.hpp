// Runs a replica's jobs, mostly on a separate thread, so that the host's loop never waits.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "peer/node/replica.hpp"

namespace gv {

/// Calls `work` with each number from 0 to count - 1. Call 0 runs on the caller's thread, and each
/// other call on its own thread. Returns when all calls have finished.
void run_in_threads(std::size_t count, const std::function<void(std::size_t)>& work);

/// The length, in floats, of the longest array that the posting thread copies itself. Copying it
/// takes less time than waking another thread, which takes about 10 us.
inline constexpr std::size_t short_array = std::size_t{1} << 14;

/// Runs jobs one after the other on its own thread. After set_arrays(), runs jobs with short arrays
/// on the posting thread instead. After each job, prefetches the next batches.
class Worker {
 public:
  /// Called when a job is done, on the thread that ran it.
  using Done = std::function<void(JobDone)>;
  /// Writes a checkpoint of the replica. Returns the reason for a failure, or an empty string.
  /// Called on the worker's thread. Meanwhile exchanges continue from the last snapshot, even if
  /// the disk is slow.
  using Save = std::function<std::string(const Replica&, const task::Save&)>;
  /// Called when a job has failed with an exception, on the thread that ran the job. `why` is the
  /// exception's text. No other job begins afterwards.
  using Failed = std::function<void(std::string why)>;

  Worker(std::unique_ptr<Replica> replica, Save save, Done done, Failed failed);

  /// Waits until all posted jobs are done, or until one fails. Drops a job that is still waiting
  /// for an array.
  ~Worker();

  /// Call before the first job if the replica averages these arrays. Jobs with short arrays then
  /// run on the thread that calls post() and look(), because handing such a job to another thread
  /// would take longer than running it. `later` may be called on any thread, and look() must be
  /// called soon afterwards.
  void set_arrays(ArraySource& arrays, std::function<void()> later);

  /// Queues a job. One thread must post all jobs. After set_arrays(), a job may be posted only when
  /// the previous one is done.
  void post(Job job);
  /// If a job waits for an array that has now been given, continues that job. Call this on the
  /// posting thread.
  void look();
  /// True if a job waits for an array. The loop should then poll, because a program may give its
  /// next array as soon as it has a mean.
  bool awaits_array() const { return waiting_.has_value(); }

 private:
  /// A job, or the remaining tasks of a job that has begun.
  struct Work {
    Job job;
    /// When the job began; set only if tasks ran before the job waited for an array.
    std::optional<std::chrono::steady_clock::time_point> began;
    std::optional<JobDone> first;  ///< The result of the tasks that are already done.
  };

  void run(std::stop_token stop);
  void queue(Work work);
  bool is_idle();
  void begin_here(Job job);
  void carry_out(Work work);
  void fail(const std::exception& error);

  std::unique_ptr<Replica> replica_;
  Save save_;
  Done done_;
  Failed failed_;
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::deque<Work> jobs_;
  bool is_running_ = false;  ///< True while the worker's thread runs a job.
  bool has_failed_ = false;  ///< True once a job has failed. No further job then runs.
  // Only the posting thread uses these fields.
  ArraySource* arrays_ = nullptr;  ///< If null, all jobs run on the worker's thread.
  std::function<void()> later_;
  std::optional<Work> waiting_;  ///< The job that waits for an array.
  std::jthread thread_;          ///< Last member: stops before the others are destroyed.
};

}  // namespace gv
