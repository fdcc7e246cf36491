// How long a pipeline of virtual peers stands still after one of them is killed or stopped.
#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>

#include "tests/sim/pipeline_run.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// Measures the longest time in which the highest step of all peers does not change.
class StandstillWatch : public Watcher {
 public:
  void on_job_done(const Simulator& world, PeerNumber, const JobDone& done) override {
    if (done.step <= newest) return;
    newest = done.step;
    if (moved_at_ != Time{}) longest = std::max(longest, world.now() - moved_at_);
    moved_at_ = world.now();
  }

  std::uint64_t newest = 0;
  Duration longest{};

 private:
  Time moved_at_{};
};

}  // namespace

TEST_CASE("a pipeline stands still for less than five seconds after each kill and each stop",
          "[sim]") {
  const int faults = 8;
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    PipelineTask task{.peers = 4, .stages = 2, .steps = 1'000'000};
    Simulator::Options options = task.options();
    options.seed = seed;
    // Each fault is over long before the next one begins, and its peer has joined again by then.
    for (int number = 0; number < faults; ++number) {
      const FaultKind kind = number % 2 == 0 ? FaultKind::stop : FaultKind::kill;
      const auto peer = (static_cast<std::size_t>(number) + seed) / 2 % 4;
      const Duration begin = 15s + number * 25s + static_cast<int>(seed) * 37ms;
      options.scenario.faults.push_back(fault(kind, begin, just(peer), 8s));
    }
    Simulator world(options, task.workloads());
    StandstillWatch watch;
    world.watch(watch);
    world.run(Time(15s + faults * 25s));
    INFO("seed " << seed);
    REQUIRE(watch.newest > 100);
    CHECK(seconds(watch.longest) < 5);
  }
}

}  // namespace gv
