// The parts of a virtual world: its queue, its links and its disks.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "sim/virtual/disk.hpp"
#include "sim/virtual/event_queue.hpp"
#include "sim/virtual/link.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

Time at(double s) { return Time(from_seconds(s)); }

/// True if `count` of `tries` fits this probability, that is, if it is within 4 standard deviations
/// of the mean of a binomial count. A correct link fails this once in 16,000 tests. The seeds are
/// fixed, so a test that passes once always passes.
bool is_rate(std::size_t count, std::size_t tries, double probability) {
  const double n = static_cast<double>(tries);
  const double deviation = std::sqrt(n * probability * (1 - probability));
  return std::abs(static_cast<double>(count) - n * probability) <= 4 * deviation;
}

Link link_of(const LinkQuality& quality) {
  Link link;
  link.state.quality = quality;
  return link;
}

constexpr std::size_t tries = 20000;

Image image_of(std::uint64_t step) { return {.parameters = {1, 2}, .step = step}; }

}  // namespace

// ---- The queue ----

TEST_CASE("events come out in order of time whatever order they went in", "[sim]") {
  EventQueue<int> queue;
  Rng rng(1);
  std::vector<int> times(500);
  for (int& time : times) {
    time = static_cast<int>(rng.below(1000));
    queue.push(Time(Duration(time)), time);
  }
  std::ranges::sort(times);
  for (const int time : times) {
    CHECK(queue.next() == Time(Duration(time)));
    CHECK(queue.pop() == time);
  }
  CHECK(queue.empty());
}

TEST_CASE("events of one instant come out in the order they went in", "[sim]") {
  EventQueue<int> queue;
  for (int i = 0; i < 100; ++i) queue.push(at(i % 2), i);
  std::vector<int> drawn;
  while (!queue.empty()) drawn.push_back(queue.pop());
  std::vector<int> expected;
  for (int i = 0; i < 100; i += 2) expected.push_back(i);
  for (int i = 1; i < 100; i += 2) expected.push_back(i);
  CHECK(drawn == expected);
}

TEST_CASE("a place that a taken event leaves is used again without mixing events up", "[sim]") {
  EventQueue<std::string> queue;
  Rng rng(2);
  std::int64_t now = 0;
  for (int i = 0; i < 10; ++i) {
    const std::int64_t due = now + static_cast<std::int64_t>(rng.below(50));
    queue.push(Time(Duration(due)), std::to_string(due));
  }
  // Each event adds the next one, as in a world, so slots are freed and reused all the time.
  for (int i = 0; i < 2000; ++i) {
    const Time next = queue.next();
    REQUIRE(next.time_since_epoch().count() >= now);
    now = next.time_since_epoch().count();
    REQUIRE(queue.pop() == std::to_string(now));
    const std::int64_t due = now + static_cast<std::int64_t>(rng.below(50));
    queue.push(Time(Duration(due)), std::to_string(due));
    REQUIRE(queue.size() == 10);
  }
}

// ---- Links ----

TEST_CASE("a perfect link delivers at once and draws no number", "[sim]") {
  Link link;
  Rng rng(3);
  Rng untouched = rng;
  const Passage passage = link.pass(at(2), 1000, rng);
  CHECK(passage.copies == 1);
  CHECK(passage.arrivals[0] == at(2));
  CHECK(passage.sent == at(2));
  CHECK(rng.next() == untouched.next());
}

TEST_CASE("latency is added to every message", "[sim]") {
  Link link = link_of({.latency = 30ms});
  Rng rng(4);
  for (const double s : {0.0, 0.5, 0.5, 7.0}) {
    CHECK(link.pass(at(s), 100, rng).arrivals[0] == at(s) + 30ms);
  }
}

TEST_CASE("jitter delays by up to its length and keeps the order", "[sim]") {
  Link link = link_of({.latency = 10ms, .jitter = 20ms});
  Rng rng(5);
  Time last{};
  double longest = 0;
  double sum = 0;
  for (std::size_t i = 0; i < tries; ++i) {
    // Messages are 25 ms apart, so no message waits for the one before it.
    const Time now = Time(static_cast<std::int64_t>(i) * 25ms);
    const Time arrival = link.pass(now, 100, rng).arrivals[0];
    REQUIRE(arrival >= last);
    last = arrival;
    const double delay = seconds(arrival - now);
    REQUIRE(delay >= 0.010);
    REQUIRE(delay < 0.030);
    longest = std::max(longest, delay);
    sum += delay;
  }
  // Delays are uniform on [10, 30) ms: the mean is 20 ms and the standard deviation is 20 ms /
  // sqrt(12). The test allows 4 standard deviations of the mean.
  const double n = static_cast<double>(tries);
  CHECK(std::abs(sum / n - 0.020) < 4 * 0.020 / std::sqrt(12 * n));
  CHECK(longest > 0.0299);

  // Messages sent back to back keep their order, although their random delays would break it.
  const Time late = at(1e4);
  Time previous = late;
  for (int i = 0; i < 1000; ++i) {
    const Time arrival = link.pass(late, 100, rng).arrivals[0];
    REQUIRE(arrival >= previous);
    previous = arrival;
  }
}

TEST_CASE("a narrow link is a queue with the closed form of one", "[sim]") {
  // 8 Mbit/s carry 1000 bytes in 1 ms. A message begins to leave when it is sent or, if that is
  // later, when the message before it has left.
  Link link = link_of({.latency = 5ms, .bandwidth = 8});
  Rng rng(6);
  Rng draws(7);
  Time now{};
  Time free_at{};
  for (int i = 0; i < 1000; ++i) {
    now += from_seconds(0.003 * draws.uniform());
    const std::size_t bytes = 100 + draws.below(3000);
    free_at = std::max(now, free_at) + from_seconds(static_cast<double>(bytes) / 1e6);
    const Passage passage = link.pass(now, bytes, rng);
    REQUIRE(passage.sent == free_at);
    REQUIRE(passage.arrivals[0] == free_at + 5ms);
  }
}

TEST_CASE("messages sent at once on a narrow link arrive one after the other", "[sim]") {
  Link link = link_of({.bandwidth = 8});
  Rng rng(8);
  for (int i = 1; i <= 10; ++i) CHECK(link.pass(at(1), 1000, rng).arrivals[0] == at(1) + i * 1ms);
}

TEST_CASE("loss and duplication and damage come as often as they should", "[sim]") {
  Rng rng(9);
  const auto count = [&](LinkQuality quality, auto wanted) {
    Link link = link_of(quality);
    std::size_t seen = 0;
    for (std::size_t i = 0; i < tries; ++i) seen += wanted(link.pass(at(1), 100, rng)) ? 1 : 0;
    return seen;
  };
  CHECK(is_rate(count({.loss = 0.3}, [](const Passage& p) { return p.copies == 0; }), tries, 0.3));
  CHECK(is_rate(count({.duplicate = 0.2}, [](const Passage& p) { return p.copies == 2; }), tries,
                0.2));
  CHECK(
      is_rate(count({.corrupt = 0.05}, [](const Passage& p) { return p.damaged && p.copies == 0; }),
              tries, 0.05));
  CHECK(count({.loss = 1}, [](const Passage& p) { return p.copies == 0; }) == tries);
  CHECK(count({}, [](const Passage& p) { return p.copies == 1; }) == tries);
}

TEST_CASE("reordered messages are overtaken by what was sent after them", "[sim]") {
  Link link = link_of({.latency = 10ms, .reorder = 0.25});
  Rng rng(10);
  std::size_t late = 0;
  for (std::size_t i = 0; i < tries; ++i) {
    // Messages are 100 ms apart, so each is late only by its own random delay, which is at most
    // four latencies and 10 ms.
    const Time now = Time(static_cast<std::int64_t>(i) * 100ms);
    const Duration delay = link.pass(now, 100, rng).arrivals[0] - now;
    REQUIRE(delay >= 10ms);
    REQUIRE(delay <= 60ms);
    late += delay > 10ms ? 1 : 0;
  }
  CHECK(is_rate(late, tries, 0.25));

  std::size_t overtaken = 0;
  Time first_arrival{};
  for (int i = 0; i < 1000; ++i) {
    const Time now = at(1e5 + i);
    first_arrival = link.pass(now, 100, rng).arrivals[0];
    overtaken += link.pass(now + 1ms, 100, rng).arrivals[0] < first_arrival ? 1 : 0;
  }
  CHECK(overtaken > 100);
}

TEST_CASE("nothing passes a cut link and it keeps its queue for later", "[sim]") {
  Link link = link_of({.bandwidth = 8});
  link.state.cut = true;
  Rng rng(11);
  CHECK(link.pass(at(1), 1000, rng).copies == 0);
  CHECK(link.pass(at(1), 1000, rng).copies == 0);
  link.state.cut = false;
  CHECK(link.pass(at(1), 1000, rng).arrivals[0] == at(1) + 3ms);
}

TEST_CASE("what passes a clogged link arrives in order when the clog is over", "[sim]") {
  Link link = link_of({.latency = 10ms});
  link.state.clogged_until = at(5);
  Rng rng(12);
  CHECK(link.pass(at(1), 100, rng).arrivals[0] == at(5));
  CHECK(link.pass(at(2), 100, rng).arrivals[0] == at(5));
  CHECK(link.pass(at(4.995), 100, rng).arrivals[0] == at(5.005));
  CHECK(link.pass(at(6), 100, rng).arrivals[0] == at(6.010));
}

// ---- Disks ----

TEST_CASE("a disk gives the newest checkpoint and keeps three", "[sim]") {
  Disk disk;
  CHECK(disk.newest() == nullptr);
  std::vector<std::weak_ptr<const Image>> written;
  for (std::uint64_t step = 1; step <= 10; ++step) {
    disk.commit(image_of(step));
    REQUIRE(disk.newest() != nullptr);
    CHECK(disk.newest()->step == step);
    written.emplace_back(disk.newest());
    const auto kept =
        std::ranges::count_if(written, [](const auto& file) { return !file.expired(); });
    CHECK(kept == static_cast<std::ptrdiff_t>(std::min<std::uint64_t>(step, 3)));
  }
}

TEST_CASE("a crash while a checkpoint is written leaves none or a torn one or the whole of it",
          "[sim]") {
  Rng rng(14);
  std::size_t none = 0;
  std::size_t torn = 0;
  std::size_t whole = 0;
  for (std::size_t i = 0; i < tries; ++i) {
    Disk disk;
    disk.commit(image_of(1));
    disk.crash(image_of(2), rng);
    const std::uint64_t step = disk.newest()->step;
    if (step == 2) {
      ++whole;
    } else if (disk.refused() == 1) {
      ++torn;
    } else {
      ++none;
    }
  }
  CHECK(is_rate(none, tries, 1.0 / 3));
  CHECK(is_rate(torn, tries, 1.0 / 3));
  CHECK(is_rate(whole, tries, 1.0 / 3));
}

TEST_CASE("a torn checkpoint is passed over until the next one replaces it", "[sim]") {
  Rng rng(15);
  std::size_t torn = 0;
  for (int i = 0; i < 100; ++i) {
    Disk disk;
    disk.commit(image_of(1));
    disk.crash(image_of(2), rng);
    if (disk.newest()->step == 2 || disk.refused() == 0) continue;
    ++torn;
    CHECK(disk.newest()->step == 1);
    CHECK(disk.refused() == 2);
    disk.commit(image_of(3));
    CHECK(disk.newest()->step == 3);
    CHECK(disk.refused() == 2);
  }
  CHECK(torn > 0);
}

TEST_CASE("a disk with nothing but a torn checkpoint has none", "[sim]") {
  Rng rng(16);
  std::size_t torn = 0;
  for (int i = 0; i < 100; ++i) {
    Disk disk;
    disk.crash(image_of(1), rng);
    const auto found = disk.newest();
    if (disk.refused() == 0) continue;
    ++torn;
    CHECK(found == nullptr);
  }
  CHECK(torn > 0);
}

}  // namespace gv
