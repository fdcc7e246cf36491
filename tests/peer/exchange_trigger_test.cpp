// When exchanges are due, for each kind of trigger.
#include "peer/modes/exchange_trigger.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <vector>

namespace gv {
namespace {

/// The numbers of steps between `count` exchanges of a peer that is never busy.
std::vector<double> intervals(const TriggerOptions& options, std::size_t count) {
  ExchangeTrigger trigger(options, Rng(3));
  std::vector<double> all;
  std::uint64_t last = 0;
  while (all.size() < count) {
    const std::uint64_t step = trigger.next();
    CHECK_FALSE(trigger.fires(step - 1, false));
    CHECK(trigger.fires(step, false));
    all.push_back(static_cast<double>(step - last));
    last = step;
  }
  return all;
}

}  // namespace

TEST_CASE("by steps all peers count the same rounds, wherever they begin", "[unit]") {
  CHECK(intervals({.period = 5}, 3) == std::vector<double>{5, 5, 5});
  ExchangeTrigger trigger({.period = 5}, Rng(1));
  trigger.begin_at(12);
  CHECK(trigger.next() == 15);
  trigger.begin_at(15);
  CHECK(trigger.next() == 20);
}

TEST_CASE("staggered peers offer at all steps of a period alike", "[unit]") {
  constexpr std::uint64_t period = 8;
  std::vector<std::size_t> begins(period);
  for (std::uint64_t seed = 0; seed < 800; ++seed) {
    ExchangeTrigger trigger({.period = period, .staggered = true}, Rng(seed));
    const std::uint64_t first = trigger.next();
    REQUIRE(first >= 1);
    REQUIRE(first <= period);
    ++begins[first - 1];
    CHECK(trigger.fires(first, false));
    CHECK(trigger.next() == first + period);
  }
  // The expected count is 100, with a standard deviation of 9.
  for (const std::size_t count : begins) CHECK((count > 55 && count < 145));
}

TEST_CASE("intervals of a Poisson process have their mean for a deviation", "[unit]") {
  const std::vector<double> all = intervals({.kind = TriggerKind::poisson, .period = 50}, 4000);
  double sum = 0;
  double squares = 0;
  for (const double interval : all) {
    sum += interval;
    squares += interval * interval;
  }
  const double n = 4000;
  const double mean = sum / n;
  // The mean of n intervals has a standard deviation of 50 / sqrt(n). Their measured deviation
  // varies by about as much.
  CHECK(mean == Approx(50).margin(4 * 50 / std::sqrt(n)));
  CHECK(std::sqrt(squares / n - mean * mean) == Approx(50).margin(6 * 50 / std::sqrt(n)));
}

TEST_CASE("an idle trigger waits while an exchange is under way", "[unit]") {
  ExchangeTrigger trigger({.kind = TriggerKind::idle, .period = 8}, Rng(1));
  CHECK(trigger.next() == 4);
  CHECK_FALSE(trigger.fires(4, true));
  CHECK_FALSE(trigger.fires(8, true));
  CHECK(trigger.fires(12, false));
}

TEST_CASE("by spread, exchanges come more often the further models are apart", "[unit]") {
  ExchangeTrigger trigger({.kind = TriggerKind::spread, .period = 16, .spread = 2}, Rng(1));
  std::uint64_t step = 0;
  double interval = 0;
  for (int i = 0; i < 60; ++i) {
    interval = static_cast<double>(trigger.next() - step);
    step = trigger.next();
    CHECK(trigger.fires(step, false));
    // The models drift apart at random.
    trigger.learn(0.1 * std::sqrt(interval));
  }
  CHECK(interval == Approx(400).epsilon(0.02));
  for (int i = 0; i < 40; ++i) trigger.learn(1e9);
  trigger.begin_at(step);
  CHECK(trigger.next() == step + 1);
  for (int i = 0; i < 40; ++i) trigger.learn(0);
  trigger.begin_at(step);
  CHECK(trigger.next() == step + 64 * 16);
}

}  // namespace gv
