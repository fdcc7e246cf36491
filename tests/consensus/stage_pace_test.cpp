// The speed of a peer in a pipeline while its stages and its speed change.
#include "peer/modes/stage_pace.hpp"

#include <catch2/catch.hpp>
#include <set>

namespace gv {
namespace {

/// A peer that takes `error` times as long for a stage as the plan says.
struct Worker {
  StagePace pace;
  double speed = 1;

  void work(std::uint32_t stage, int passes, double error = 1) {
    for (int pass = 0; pass < passes; ++pass) pace.add(stage, 0.01, 0.01 * error / speed);
  }
};

}  // namespace

TEST_CASE("a speed is known after half a second of passes", "[unit]") {
  Worker worker{.pace = {}, .speed = 2};
  worker.pace.carry({0});
  worker.work(0, 50);
  CHECK(worker.pace.speed() == 0);
  worker.work(0, 150);
  CHECK(worker.pace.speed() == Approx(2));
}

TEST_CASE("a peer that becomes slow after a change of stages is as slow as in its new stages",
          "[unit]") {
  Worker worker;
  worker.pace.carry({0, 1});
  worker.work(0, 1000);
  worker.work(1, 1000);
  worker.pace.carry({2});
  worker.work(2, 1000);
  CHECK(worker.pace.speed() == Approx(1));
  worker.speed = 0.25;
  worker.work(2, 1000);
  CHECK(worker.pace.speed() == Approx(0.25).epsilon(0.01));
  // The known paces of the worker's former stages were scaled too, so a return to one of them
  // changes nothing.
  worker.pace.carry({1});
  CHECK(worker.pace.speed() == Approx(0.25).epsilon(0.01));
  worker.work(1, 1000);
  CHECK(worker.pace.speed() == Approx(0.25).epsilon(0.01));
}

TEST_CASE("a plan's errors about stages do not change a speed with every change of stages",
          "[unit]") {
  Worker worker;
  worker.pace.carry({0});
  worker.work(0, 1000, 0.5);
  CHECK(worker.pace.speed() == Approx(2));
  worker.pace.carry({1});
  worker.work(1, 1000, 2);
  const double mean = worker.pace.speed();
  CHECK(mean == Approx((2 + 0.5) / 2));
  for (std::uint32_t change = 0; change < 6; ++change) {
    const std::uint32_t stage = change % 2;
    worker.pace.carry({stage});
    worker.work(stage, 1000, stage == 0 ? 0.5 : 2);
    CHECK(worker.pace.speed() == Approx(mean).epsilon(0.01));
  }
  worker.speed = 0.5;
  worker.work(1, 1000, 2);
  CHECK(worker.pace.speed() == Approx(0.5 * mean).epsilon(0.01));
}

TEST_CASE("what a peer learnt of its speed while a stage was slow is forgotten there", "[unit]") {
  Worker worker;
  worker.pace.carry({0});
  worker.work(0, 1000);
  worker.speed = 0.25;
  worker.work(0, 50);  // The stages change while fast passes still count as well.
  CHECK(worker.pace.speed() > 0.3);
  worker.pace.carry({1});
  worker.work(1, 1000);
  worker.pace.carry({0});
  worker.work(0, 1000);
  CHECK(worker.pace.speed() == Approx(0.25).epsilon(0.01));
}

TEST_CASE("a speed remains known while a peer works on stages that it has never carried",
          "[unit]") {
  Worker worker{.pace = {}, .speed = 3};
  worker.pace.carry({0});
  worker.work(0, 500);
  worker.pace.carry({1, 2});
  CHECK(worker.pace.speed() == Approx(3));
  worker.work(1, 10);
  CHECK(worker.pace.speed() == Approx(3));
}

}  // namespace gv
