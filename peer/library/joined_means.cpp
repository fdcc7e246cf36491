// Checks arrays, and passes them to the queue of calls.
#include "peer/library/joined_means.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <stdexcept>
#include <utility>

#include "base/magnitude.hpp"

namespace gv {
namespace {

/// The length of the longest array, in floats. The name of each piece has 32 bits for this length.
constexpr std::uint64_t array_max = std::numeric_limits<std::uint32_t>::max();
/// The bounds of all weights except 0, chosen so that sums of weights are exact enough.
constexpr double weight_min = 1e-9;
constexpr double weight_max = 1e9;
/// A limit on the number of calls, far above the number that any program makes.
constexpr std::uint64_t calls_max = 1'000'000'000'000;

}  // namespace

Config without_model(Config config) {
  config.run.mode = ModeKind::allreduce;
  config.run.algorithm.clear();
  config.run.budget = BudgetKind::peer;
  config.run.epochs = 0;
  config.run.steps = calls_max;
  config.run.wall = {};
  config.run.linger = {};
  config.allreduce = AllReduceConfig{.algorithm = config.allreduce.algorithm};
  config.allreduce.shares_by_speed = false;
  config.allreduce.bucket_elements = std::size_t{4} << 20;
  config.population = {};
  config.data.partition = {};
  config.train.batch = 1;
  config.train.threads = 1;
  config.checkpoint.every_steps = 0;
  return config;
}

JoinedMeans::JoinedMeans(HostOptions options) : host_(std::move(options), calls_.learner()) {}

JoinedMeans::~JoinedMeans() { leave(); }

std::uint64_t JoinedMeans::begin(UserTensors array, double weight) {
  if (array.size() > array_max) throw std::invalid_argument("the array has 2^32 elements or more");
  const bool is_weight = weight == 0 || (weight >= weight_min && weight <= weight_max);
  if (!is_weight) {
    throw std::invalid_argument(fmt::format("a weight is 0, or from {:g} to {:g}; this one is {}",
                                            weight_min, weight_max, weight));
  }
  const double largest = array.largest_magnitude();
  // A comparison with NaN is false, so the negated test also refuses NaN.
  if (!(largest * std::max(weight, 1.0) < largest_in_array)) {
    throw std::invalid_argument(
        fmt::format("the array's largest value is {:g}: values must be finite, and times the "
                    "weight below {:g}",
                    largest, largest_in_array));
  }
  const auto shared = std::make_shared<const UserTensors>(std::move(array));
  const std::uint64_t call =
      calls_.give({.floats = shared->size(),
                   .read = [shared](std::span<float> to) { shared->read(to); },
                   .write = [shared](std::span<const float> from) { shared->write(from); }},
                  static_cast<float>(weight));
  open_.insert(call);
  return call;
}

MeanCalls::Waited JoinedMeans::wait(std::uint64_t call, Duration patience) {
  const MeanCalls::Waited waited = calls_.wait(call, patience);
  if (waited == MeanCalls::Waited::is_late) return waited;
  // The reason for the end is known only once the host has ended. The call stays open until then.
  if (waited == MeanCalls::Waited::is_over && !host_.has_ended(patience)) {
    return MeanCalls::Waited::is_late;
  }
  if (pending_ == call) pending_.reset();
  open_.erase(call);
  mean_ = {};
  if (waited == MeanCalls::Waited::is_done && call > 0) mean_ = calls_.take(call);
  return waited;
}

void JoinedMeans::leave() {
  has_left_ = true;
  calls_.leave();
}

}  // namespace gv
