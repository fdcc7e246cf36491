// Runs the jobs of a replica, mostly on a thread of its own, so that the host's loop never waits.
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

/// Calls `work` with 0 to count - 1. Call 0 runs on the caller's thread, every other on a thread of
/// its own. Returns when all have finished.
void run_in_threads(std::size_t count, const std::function<void(std::size_t)>& work);

/// The longest array, in floats, that the thread of a loop copies itself. It takes that thread less
/// time than another one needs to wake up, which is about 10 us.
inline constexpr std::size_t short_array = std::size_t{1} << 14;

/// Runs jobs one after the other: on its own thread, or, if set_arrays() was called, those with
/// short arrays on the thread that posts. After each it prefetches the next batches.
class Worker {
 public:
  /// Called on the thread that runs a job, when the job is done.
  using Done = std::function<void(JobDone)>;
  /// Writes a checkpoint of the replica; returns the reason of a failure, or an empty string.
  /// Called on the worker's thread: exchanges continue from the last snapshot, however slow the
  /// disk is.
  using Save = std::function<std::string(const Replica&, const task::Save&)>;
  /// Called on the thread that runs a job, when it has failed with an exception; `why` is its text.
  /// No other job begins after that.
  using Failed = std::function<void(std::string why)>;

  Worker(std::unique_ptr<Replica> replica, Save save, Done done, Failed failed);

  /// Waits until all posted jobs are done, or until one fails. Drops one that waits for an array.
  ~Worker();

  /// Call before the first job if the replica averages these arrays. Jobs with short arrays then
  /// run on the thread that calls post() and look(): handing them to another one would take longer
  /// than they do. `later` is called on any thread when look() should be called.
  void set_arrays(ArraySource& arrays, std::function<void()> later);

  /// Queues a job. All jobs are posted by one thread; after set_arrays(), each when the one before
  /// is done.
  void post(Job job);
  /// Goes on with the job that waits for an array, if one does and the array is given. Call it on
  /// the thread that posts.
  void look();
  /// True if a job waits for an array. The loop should poll then: a program may give its next array
  /// as soon as it has a mean.
  bool awaits_array() const { return waiting_.has_value(); }

 private:
  /// A job, or the rest of one.
  struct Work {
    Job job;
    /// When it began, if it began before it waited for an array.
    std::optional<std::chrono::steady_clock::time_point> began;
    std::optional<JobDone> first;  ///< Of the tasks that are done already.
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
  bool is_running_ = false;  ///< The thread runs a job.
  bool has_failed_ = false;  ///< No further job runs.
  // Only the thread that posts uses these.
  ArraySource* arrays_ = nullptr;  ///< Null: all jobs run on the worker's thread.
  std::function<void()> later_;
  std::optional<Work> waiting_;  ///< Waits for an array.
  std::jthread thread_;          ///< Last member: stops before the others are destroyed.
};

}  // namespace gv
