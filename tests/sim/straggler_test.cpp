// The cost of one peer in four at a quarter of the pace, on known functions.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>

#include "sim/virtual/simulator.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t peers = 4;
constexpr std::size_t slow = 2;

/// Chooses how the peers work together.
using Setting = std::function<void(NodeOptions&)>;

void by_gossip(NodeOptions&) {}
void in_lockstep(NodeOptions& node) {
  node.mode = ModeKind::allreduce;
  node.allreduce.state_elements = node.course.elements;
}

/// Measures the distance of the mean model from the common optimum.
class Straggler {
 public:
  Straggler(const Setting& setting, double pace)
      : spec_{.dimension = 16, .learning_rate = 0.02, .noise = 0, .disagreement = 0},
        world_(options(setting, pace),
               [this](std::size_t peer) { return quadratic_workload(spec_, peer); }) {}

  /// Virtual seconds of training until the mean model is within `distance` of the optimum.
  double seconds_to(double distance) {
    double begun = 0;
    while (world_.now() < Time(5min)) {
      world_.run(world_.now() + 5ms);
      const auto& work = world_.peer(0).work;
      if (begun == 0 && work && work->step() > 0) begun = seconds(world_.now().time_since_epoch());
      if (begun > 0 && this->distance() < distance) {
        return seconds(world_.now().time_since_epoch()) - begun;
      }
    }
    return INFINITY;
  }

 private:
  static Simulator::Options options(const Setting& setting, double pace) {
    Simulator::Options options = small_world(peers, 5);
    options.scenario.step = 10ms;
    options.scenario.speeds = {{.peers = just(slow), .factor = pace}};
    options.node.course.wait_for_peers = peers;
    setting(options.node);
    return options;
  }

  double distance() const {
    const std::vector<double> optimum = common_optimum(spec_, peers);
    double squares = 0;
    for (std::size_t k = 0; k < optimum.size(); ++k) {
      double mean = 0;
      for (PeerNumber number = 0; number < peers; ++number) {
        mean += world_.peer(number).work->parameters()[k] / peers;
      }
      squares += std::pow(mean - optimum[k], 2);
    }
    return std::sqrt(squares);
  }

  QuadraticSpec spec_;
  Simulator world_;
};

/// The time until a hundredth of the initial distance is left, relative to a run without a slow
/// peer.
double cost_of_one_slow(const Setting& setting) {
  constexpr double near = 0.04;
  return Straggler(setting, 0.25).seconds_to(near) / Straggler(setting, 1).seconds_to(near);
}

}  // namespace

// The mean model advances with the total steps of all peers: 3.25 instead of 4 steps at a time.
TEST_CASE("one of four at a quarter of the pace costs gossip what it does not compute", "[sim]") {
  CHECK(cost_of_one_slow(by_gossip) == Approx(4 / 3.25).epsilon(0.05));
}

TEST_CASE("in lockstep all are as slow as the slowest", "[sim]") {
  CHECK(cost_of_one_slow(in_lockstep) > 3.5);
}

}  // namespace gv
