// A worker that averages arrays runs jobs with short arrays on the thread that posts them.
#include "peer/host/worker.hpp"

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "peer/host/mean_calls.hpp"
#include "peer/node/whole_replica.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;
using Array = std::vector<float>;

/// Number of floats that follow an array: its weight, and others that the replica does not change.
constexpr std::size_t behind_array = 5;
constexpr std::size_t long_array = std::size_t{1} << 18;

/// A job that takes the next array.
Job taking(std::uint64_t number) {
  Job job{.number = number, .version = {}, .tasks = {}};
  task::ComputeGradient gradient;
  gradient.samples = 1;
  gradient.values = std::make_shared<Floats>();
  gradient.behind_array = behind_array;
  job.add(std::move(gradient));
  return job;
}

/// A job that ends the oldest call with a mean over two peers, and takes the next array.
Job ending(std::uint64_t number, const Array& mean) {
  const auto sum = std::make_shared<Floats>(mean.size() + behind_array);
  std::ranges::copy(mean, sum->begin());
  (*sum)[mean.size()] = 2;
  task::ApplyUpdate update;
  update.values = sum;
  update.plan.elements = mean.size();
  update.samples = 2;
  Job job{.number = number, .version = {}, .tasks = {}};
  job.add(std::move(update));
  Job next = taking(number);
  for (Job::Task& task : next.tasks) job.add(std::move(task));
  return job;
}

/// A program without a model, and the worker that averages its arrays.
struct ArrayRun {
  struct Ended {
    std::thread::id thread;
    JobDone done;
  };

  ArrayRun() {
    worker.emplace(
        std::make_unique<WholeReplica>(std::move(learner), 0),
        [](const Replica&, const task::Save&) { return std::string(); },
        [this](JobDone done) { end(std::move(done)); },
        [this](std::string why) {
          const std::lock_guard lock(mutex);
          failures.push_back(std::move(why));
        });
    worker->set_arrays(*arrays, [this] { ++told; });
  }
  ~ArrayRun() { calls.leave(); }

  std::uint64_t give(Array& array) {
    return calls.give(
        {.floats = array.size(),
         .read = [&array](std::span<float> to) { std::ranges::copy(array, to.begin()); },
         .write =
             [&array](std::span<const float> from) { std::ranges::copy(from, array.begin()); }},
        1);
  }
  void end(JobDone done) {
    const std::lock_guard lock(mutex);
    ended.push_back({std::this_thread::get_id(), std::move(done)});
    wake.notify_all();
  }
  /// Waits until `jobs` jobs have ended. Returns false if that takes longer than `patience`.
  bool have_ended(std::size_t jobs, std::chrono::seconds patience) {
    std::unique_lock lock(mutex);
    return wake.wait_for(lock, patience, [&] { return ended.size() >= jobs; });
  }
  std::vector<std::string> reasons() {
    const std::lock_guard lock(mutex);
    return failures;
  }
  std::size_t floats_taken(std::size_t job) const {
    const auto* gradient = first_of<result::Gradient>(ended.at(job).done.results);
    return gradient == nullptr ? 0 : gradient->array;
  }
  bool ran_here(std::size_t job) const {
    return ended.at(job).thread == std::this_thread::get_id();
  }

  MeanCalls calls;
  std::unique_ptr<Learner> learner = calls.learner();
  ArraySource* arrays = learner->arrays();
  std::atomic<int> told = 0;  ///< Number of times that a call of look() was requested.
  std::mutex mutex;
  std::condition_variable wake;
  std::vector<Ended> ended;           ///< Protected by `mutex`.
  std::vector<std::string> failures;  ///< Protected by `mutex`.
  std::optional<Worker> worker;
};

}  // namespace

TEST_CASE("a short array is averaged by the thread that posts its jobs", "[unit]") {
  ArrayRun run;
  CHECK(run.calls.wait(0, Duration{}) == MeanCalls::Waited::is_late);
  run.worker->post(taking(1));
  CHECK(run.calls.wait(0, Duration{}) == MeanCalls::Waited::is_done);
  CHECK_FALSE(run.have_ended(1, 0s));

  Array array{1, 2, 3};
  const std::uint64_t call = run.give(array);
  CHECK(run.told == 1);
  run.worker->look();
  REQUIRE(run.have_ended(1, 0s));
  CHECK(run.ran_here(0));
  CHECK(run.floats_taken(0) == 3);

  // The mean is available at once, although the job also waits for the next array.
  run.worker->post(ending(2, {4, 5, 6}));
  REQUIRE(run.calls.wait(call, Duration{}) == MeanCalls::Waited::is_done);
  CHECK(run.calls.take(call).peers == 2);
  CHECK(array == Array{4, 5, 6});
  CHECK_FALSE(run.have_ended(2, 0s));
  run.give(array);
  CHECK(run.told == 2);
  run.worker->look();
  REQUIRE(run.have_ended(2, 0s));
  CHECK(run.floats_taken(1) == 3);
  CHECK(run.ended.at(1).done.job.tasks.size() == 2);
  CHECK(run.reasons().empty());
}

TEST_CASE("a job that waits for an array ends without one when the program leaves", "[unit]") {
  ArrayRun run;
  run.worker->post(taking(1));
  run.calls.leave();
  CHECK(run.told == 1);
  run.worker->look();
  REQUIRE(run.have_ended(1, 0s));
  CHECK(run.floats_taken(0) == 0);
}

TEST_CASE("a long array is averaged by the thread of the worker", "[unit]") {
  ArrayRun run;
  run.worker->post(taking(1));
  Array array(long_array, 1);
  const std::uint64_t call = run.give(array);
  run.worker->look();
  REQUIRE(run.have_ended(1, 30s));
  CHECK_FALSE(run.ran_here(0));
  CHECK(run.floats_taken(0) == long_array);

  run.worker->post(ending(2, Array(long_array, 7)));
  REQUIRE(run.calls.wait(call, 30s) == MeanCalls::Waited::is_done);
  CHECK(array.back() == 7);
  // The worker's own thread waits for the next array.
  Array next{1, 2};
  run.give(next);
  REQUIRE(run.have_ended(2, 30s));
  CHECK_FALSE(run.ran_here(1));
  CHECK(run.floats_taken(1) == 2);
}

TEST_CASE("a job that saves runs on the thread of the worker although its array is short",
          "[unit]") {
  ArrayRun run;
  Job job = taking(1);
  job.add(task::Save{});
  run.worker->post(std::move(job));
  Array array{1, 2};
  run.give(array);
  REQUIRE(run.have_ended(1, 30s));
  CHECK_FALSE(run.ran_here(0));
  CHECK(run.floats_taken(0) == 2);
}

TEST_CASE("a job whose array cannot be read fails once and no other begins", "[unit]") {
  ArrayRun run;
  run.worker->post(taking(1));
  run.calls.give({.floats = 3,
                  .read = [](std::span<float>) { throw std::runtime_error("the array is gone"); },
                  .write = {}},
                 1);
  run.worker->look();
  CHECK(run.reasons() == std::vector<std::string>{"the array is gone"});
  CHECK_FALSE(run.worker->awaits_array());
  run.worker->post(taking(2));
  run.worker.reset();
  CHECK(run.ended.empty());
  CHECK(run.reasons().size() == 1);
}

TEST_CASE("a worker that ends drops the job that waits for an array", "[unit]") {
  ArrayRun run;
  run.worker->post(taking(1));
  REQUIRE(run.worker->awaits_array());
  Array array{1, 2};
  const std::uint64_t call = run.give(array);
  run.worker.reset();
  CHECK(run.ended.empty());
  CHECK(run.reasons().empty());
  CHECK(run.calls.wait(call, Duration{}) == MeanCalls::Waited::is_over);
}

}  // namespace gv
