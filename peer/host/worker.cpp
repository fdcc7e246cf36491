// Queues jobs, and runs them on the worker's thread or on the thread that posts them.
#include "peer/host/worker.hpp"

#include <algorithm>
#include <chrono>
#include <exception>
#include <iterator>
#include <utility>
#include <variant>
#include <vector>

#include "base/check.hpp"

namespace gv {
namespace {

using Clock = std::chrono::steady_clock;

bool is_gradient(const Job::Task& task) {
  return std::holds_alternative<task::ComputeGradient>(task);
}

/// True if a job takes an array, saves no checkpoint, and does not first write a mean longer than
/// `short_array`.
bool is_short(const Job& job) {
  const auto* update = first_of<task::ApplyUpdate>(job.tasks);
  return std::ranges::any_of(job.tasks, is_gradient) && !job.saves() &&
         (update == nullptr || update->plan.elements <= short_array);
}

/// Joins the results of a job that was run in two parts.
JobDone joined(JobDone first, JobDone rest) {
  rest.job.tasks.insert(rest.job.tasks.begin(), std::move_iterator(first.job.tasks.begin()),
                        std::move_iterator(first.job.tasks.end()));
  rest.results.insert(rest.results.begin(), std::move_iterator(first.results.begin()),
                      std::move_iterator(first.results.end()));
  rest.steps_run += first.steps_run;
  return rest;
}

}  // namespace

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

void Worker::set_arrays(ArraySource& arrays, std::function<void()> later) {
  arrays_ = &arrays;
  later_ = std::move(later);
}

void Worker::post(Job job) {
  check(!waiting_, "no job is posted while one waits for an array");
  if (arrays_ != nullptr && is_short(job) && is_idle()) {
    begin_here(std::move(job));
  } else {
    queue({.job = std::move(job), .began = {}, .first = {}});
  }
}

void Worker::queue(Work work) {
  {
    const std::lock_guard lock(mutex_);
    jobs_.push_back(std::move(work));
  }
  wake_.notify_one();
}

/// True if the worker's thread has no job, and no job has failed. The posting thread may then use
/// the replica.
bool Worker::is_idle() {
  const std::lock_guard lock(mutex_);
  return jobs_.empty() && !is_running_ && !has_failed_;
}

/// Immediately runs the tasks that precede the array, because one of them may write a mean that the
/// program awaits. The other tasks wait for the array.
void Worker::begin_here(Job job) {
  Work work{.job = std::move(job), .began = Clock::now(), .first = {}};
  std::vector<Job::Task>& tasks = work.job.tasks;
  const auto gradient = std::ranges::find_if(tasks, is_gradient);
  Job before{.number = work.job.number, .version = work.job.version, .tasks = {}};
  before.tasks.assign(std::move_iterator(tasks.begin()), std::move_iterator(gradient));
  tasks.erase(tasks.begin(), gradient);
  try {
    if (!before.tasks.empty()) work.first = replica_->run(std::move(before));
  } catch (const std::exception& error) {
    return fail(error);
  }
  waiting_ = std::move(work);
  look();
}

void Worker::look() {
  if (!waiting_) return;
  const std::optional<std::size_t> floats = arrays_->peek(later_);
  if (!floats) return;
  Work work = *std::exchange(waiting_, std::nullopt);
  if (*floats > short_array) return queue(std::move(work));
  carry_out(std::move(work));
}

void Worker::carry_out(Work work) {
  const Clock::time_point began = work.began.value_or(Clock::now());
  try {
    JobDone done = replica_->run(std::move(work.job));
    if (work.first) done = joined(*std::move(work.first), std::move(done));
    done.busy = std::chrono::duration_cast<Duration>(Clock::now() - began);
    if (const auto* save = first_of<task::Save>(done.job.tasks)) {
      done.results.emplace_back(result::Saved{save_(*replica_, *save)});
    }
    done_(std::move(done));
    replica_->prefetch();
  } catch (const std::exception& error) {
    fail(error);
  }
}

/// Prevents any further job, and reports the reason. Called on the thread that runs the job.
void Worker::fail(const std::exception& error) {
  {
    const std::lock_guard lock(mutex_);
    has_failed_ = true;
  }
  wake_.notify_one();
  failed_(error.what());
}

void Worker::run(std::stop_token stop) {
  while (true) {
    Work work;
    {
      std::unique_lock lock(mutex_);
      is_running_ = false;
      const auto may_go_on = [this] { return !jobs_.empty() || has_failed_; };
      if (!wake_.wait(lock, stop, may_go_on) || has_failed_) return;
      work = std::move(jobs_.front());
      jobs_.pop_front();
      is_running_ = true;
    }
    carry_out(std::move(work));
  }
}

}  // namespace gv
