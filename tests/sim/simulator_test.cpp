// A virtual world is a function of its seed, and its faults affect peers as real ones do.
#include "sim/virtual/simulator.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "peer/modes/gossip.hpp"
#include "peer/node/facts.hpp"
#include "peer/node/whole_replica.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "sim/virtual/trace.hpp"
#include "tests/facts.hpp"
#include "tests/sim/worlds.hpp"
#include "train/built_in_learner.hpp"
#include "train/data/generated.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// A world with a bit of everything: unequal peers, poor links, and faults in every part.
Simulator::Options troubled_world(std::uint64_t seed) {
  Simulator::Options options = small_world(6, seed);
  options.node.course.save_every_steps = 40;
  Scenario& scenario = options.scenario;
  scenario.speeds = {{.peers = just(2), .factor = 0.3}};
  scenario.links = {every_link({.latency = 3ms,
                                .jitter = 4ms,
                                .bandwidth = 10,
                                .loss = 0.02,
                                .duplicate = 0.1,
                                .reorder = 0.1})};
  scenario.faults = {
      fault(FaultKind::kill, 4s, just(1), 3s), fault(FaultKind::stop, 6s, just(3), 2s),
      fault(FaultKind::partition, 9s, just(4), 3s), fault(FaultKind::join, 5s, just(5)),
      fault(FaultKind::clock_jump, 12s, just(0))};
  scenario.faults.back().jump = 2s;
  return options;
}

struct Outcome {
  std::uint64_t hash = 0;
  std::uint64_t events = 0;
  std::vector<std::vector<float>> models;
};

Outcome run(const Simulator::Options& options, Time until,
            const std::vector<Watcher*>& watchers = {}) {
  Simulator world(options, idle_peers(options));
  for (Watcher* watcher : watchers) world.watch(*watcher);
  world.run(until);
  return {world.trace_hash(), world.counts().events, models(world)};
}

/// Counts all calls to a watcher.
class Everything : public Watcher {
 public:
  void on_input(const Simulator& world, const Input&) override { look(world); }
  void on_effects(const Simulator& world, PeerNumber, const NodeEffects&) override { look(world); }
  void on_job(const Simulator& world, PeerNumber, const Job&) override { look(world); }
  void on_job_done(const Simulator& world, PeerNumber, const JobDone&) override { look(world); }
  void on_fault_event(const Simulator& world, const FaultEvent&) override { look(world); }
  void on_state(const Simulator& world, PeerNumber, PeerState) override { look(world); }
  void on_save(const Simulator& world, PeerNumber, std::uint64_t, bool) override { look(world); }
  void on_restore(const Simulator& world, PeerNumber, const Image*) override { look(world); }
  void after(const Simulator& world, PeerNumber) override { look(world); }

  std::uint64_t calls = 0;

 private:
  /// Reads everything that can be read.
  void look(const Simulator& world) {
    ++calls;
    for (PeerNumber number = 0; number < world.size(); ++number) {
      const VirtualPeer& peer = world.peer(number);
      static_cast<void>(world.local(number));
      if (peer.node) static_cast<void>(peer.node->membership().members());
      if (peer.work) static_cast<void>(image_of(*peer.work));
    }
  }
};

}  // namespace

// ---- Determinism ----

TEST_CASE("equal seeds give equal traces and bit-equal parameters and others differ", "[sim]") {
  const Outcome once = run(troubled_world(1), Time(20s));
  const Outcome again = run(troubled_world(1), Time(20s));
  CHECK(once.events > 1000);
  CHECK(once.hash == again.hash);
  CHECK(once.events == again.events);
  CHECK(once.models == again.models);
  const Outcome other = run(troubled_world(2), Time(20s));
  CHECK(once.hash != other.hash);
  CHECK(once.models != other.models);
}

TEST_CASE("a world run in many pieces is the world run in one", "[sim]") {
  const Outcome once = run(troubled_world(3), Time(20s));
  const Simulator::Options options = troubled_world(3);
  Simulator world(options, idle_peers(options));
  for (Time t{}; t <= Time(20s); t += 70ms) world.run(t);
  world.run(Time(20s));
  CHECK(world.trace_hash() == once.hash);
  CHECK(models(world) == once.models);
}

TEST_CASE("a wall of watchers changes nothing", "[sim]") {
  const Outcome alone = run(troubled_world(4), Time(10s));
  std::vector<std::unique_ptr<Watcher>> wall;
  std::vector<Watcher*> watchers;
  std::size_t lines = 0;
  auto everything = std::make_unique<Everything>();
  const Everything& seen = *everything;
  wall.push_back(std::move(everything));
  for (int i = 0; i < 10; ++i) {
    wall.push_back(std::make_unique<Trace>([&](const std::string&) { ++lines; }));
  }
  for (const auto& watcher : wall) watchers.push_back(watcher.get());
  const Outcome watched = run(troubled_world(4), Time(10s), watchers);
  CHECK(watched.hash == alone.hash);
  CHECK(watched.models == alone.models);
  CHECK(seen.calls > 1000);
  CHECK(lines > 1000);
}

// ---- Faults of peers ----

TEST_CASE("a stopped peer gets what was sent meanwhile as soon as it wakes", "[sim]") {
  Simulator::Options options = small_world(3, 5);
  options.scenario.links = {every_link({.latency = 1ms})};
  options.scenario.faults = {fault(FaultKind::stop, 2s, just(1), 1500ms)};
  class Inputs : public Watcher {
   public:
    void on_input(const Simulator& world, const Input& input) override {
      if (input.peer != 1) return;
      const Time now = world.now();
      if (now > Time(2s) && now < Time(3500ms)) ++meanwhile;
      if (input.kind == Input::Kind::message && now == Time(3500ms)) ++at_once;
    }
    void on_effects(const Simulator& world, PeerNumber, const NodeEffects& effects) override {
      // Because of the latency, messages sent after this time arrive after the peer has woken.
      if (world.now() < Time(2s) || world.now() > Time(3499ms)) return;
      for (const Outgoing& out : effects.messages) sent += out.to == id_of(1) ? 1 : 0;
    }
    int meanwhile = 0;
    int at_once = 0;
    int sent = 0;
  } inputs;
  Simulator world(options, idle_peers(options));
  world.watch(inputs);
  world.run(Time(10s));
  CHECK(inputs.meanwhile == 0);
  CHECK(inputs.sent > 0);
  CHECK(inputs.at_once == inputs.sent);
  CHECK(world.counts().lost == 0);
  CHECK(world.peer(1).spent.stopped == Approx(1.5));
}

TEST_CASE("a killed peer comes back with its newest checkpoint and a new session and exchanges",
          "[sim]") {
  Simulator::Options options = small_world(4, 6);
  options.node.course.save_every_steps = 25;
  options.scenario.faults = {fault(FaultKind::kill, 5s, just(2), 2s)};
  class Life : public Watcher {
   public:
    void on_save(const Simulator&, PeerNumber peer, std::uint64_t step, bool whole) override {
      if (peer == 2 && whole && !restored) saved = step;
      if (peer == 2 && !whole) torn = true;
    }
    void on_restore(const Simulator& world, PeerNumber peer, const Image* image) override {
      if (peer != 2 || world.now() == Time{}) return;
      restored = image != nullptr;
      if (image != nullptr) {
        at_step = image->step;
        const auto values = world.peer(2).work->parameters();
        same = std::ranges::equal(values, image->parameters) &&
               world.peer(2).work->parts().front().notes == image->notes;
      }
    }
    void on_effects(const Simulator&, PeerNumber peer, const NodeEffects& effects) override {
      for (const Outgoing& out : effects.messages) {
        const auto* offer = std::get_if<Offer>(&out.message);
        if (peer == 2 && offer != nullptr) sessions.insert(offer->id.session);
      }
    }
    std::uint64_t saved = 0;
    std::uint64_t at_step = 0;
    bool torn = false;
    bool restored = false;
    bool same = false;
    std::set<std::uint64_t> sessions;
  } incarnation;
  Simulator world(options, idle_peers(options));
  world.watch(incarnation);
  world.run(Time(4999ms));
  CHECK(incarnation.sessions.size() == 1);
  const std::uint64_t reached = world.peer(2).work->step();
  world.run(Time(6s));
  CHECK(world.peer(2).state == PeerState::down);
  CHECK(world.peer(2).node == nullptr);
  world.run(Time(20s));
  REQUIRE(incarnation.restored);
  CHECK_FALSE(incarnation.torn);
  CHECK(incarnation.saved > 0);
  CHECK(incarnation.at_step == incarnation.saved);
  CHECK(incarnation.saved < reached);
  CHECK(incarnation.same);
  CHECK(incarnation.sessions.size() == 2);
  CHECK(world.peer(2).state == PeerState::up);
  CHECK(world.peer(2).node->as<GossipMode>()->exchange().counts().committed > 0);
  CHECK(world.peer(2).spent.down == Approx(2));
}

TEST_CASE("a peer killed before its first checkpoint starts afresh", "[sim]") {
  Simulator::Options options = small_world(3, 7);
  options.node.gossip.catch_up_periods = 1000;
  options.scenario.faults = {fault(FaultKind::restart, 2s, just(1))};
  Simulator world(options, idle_peers(options));
  world.run(Time(1999ms));
  CHECK(world.peer(1).work->step() > 50);
  world.run(Time(2100ms));
  CHECK(world.peer(1).work->step() < 10);
}

TEST_CASE("faults of one peer that overlap combine and end one by one", "[sim]") {
  Simulator::Options options = small_world(3, 21);
  options.node.course.steps = 1 << 30;
  FaultRule fast = fault(FaultKind::clock_rate, 2s, just(0), 4s);
  fast.factor = 2;
  FaultRule late = fault(FaultKind::slow_disk, 2s, just(0), 4s);
  late.jump = 1s;
  options.scenario.faults = {fault(FaultKind::stop, 1s, just(1), 4s),
                             fault(FaultKind::stop, 2s, just(1), 1s),
                             fault(FaultKind::disk_full, 1s, just(0), 4s),
                             fault(FaultKind::disk_full, 2s, just(0), 1s),
                             fault(FaultKind::kill, 1s, just(2), 6s),
                             fault(FaultKind::kill, 2s, just(2), 1s),
                             fast,
                             late,
                             late};
  Simulator world(options, idle_peers(options));
  world.run(Time(2500ms));
  CHECK(world.peer(0).disk.slower == Duration(2s));
  world.run(Time(3500ms));
  CHECK(world.peer(1).state == PeerState::stopped);
  CHECK(world.peer(0).disk.full);
  CHECK(world.peer(2).state == PeerState::down);  // The second kill found no peer to kill.
  CHECK(world.local(0) == Time(5s));
  world.run(Time(6500ms));
  CHECK(world.peer(1).state == PeerState::up);
  CHECK_FALSE(world.peer(0).disk.full);
  CHECK(world.peer(0).disk.slower == Duration{});
  CHECK(world.local(0) == Time(10500ms));
  world.run(Time(7500ms));
  CHECK(world.peer(2).state == PeerState::up);
}

TEST_CASE("a slow CPU slows the job that is under way and no longer than it lasts", "[sim]") {
  Simulator::Options options = small_world(1, 24);
  options.node.course.steps = 200;
  options.scenario.step = 100ms;
  options.scenario.step_jitter = 0;
  FaultRule slow = fault(FaultKind::slow_cpu, 5s, just(0), 10s);
  slow.factor = 0.001;
  options.scenario.faults = {slow};
  Simulator world(options, idle_peers(options));
  world.run(Time(100s));
  // The work takes 20 s at full pace. The ten slow seconds do as much as 0.01 s at full pace.
  CHECK(seconds(world.now().time_since_epoch()) ==
        Approx(29.99).margin(0.02));  // Two checkpoints are written on the way.
  CHECK(world.peer(0).spent.training == Approx(20));
  CHECK(world.peer(0).spent.slowed == Approx(9.99).margin(0.01));
}

TEST_CASE("any number of slow CPUs and fast clocks at once leaves time finite", "[sim]") {
  Simulator::Options options = small_world(2, 25);
  FaultRule slow = fault(FaultKind::slow_cpu, 1s, just(0), 5s);
  slow.factor = 0.01;
  FaultRule fast = fault(FaultKind::clock_rate, 1s, just(1), 5s);
  fast.factor = 10;
  for (int i = 0; i < 12; ++i) {
    options.scenario.faults.push_back(slow);
    options.scenario.faults.push_back(fast);
  }
  Simulator world(options, idle_peers(options));
  Time last{};
  while (world.step(Time(20s))) {
    REQUIRE(world.now() >= last);
    last = world.now();
  }
  CHECK(last > Time(10s));
}

TEST_CASE("peers and links too slow to ever be done leave time running forwards", "[sim]") {
  Simulator::Options options = small_world(3, 25);
  options.scenario.speeds = {{.peers = just(1), .factor = 1e-12}};
  options.scenario.links = {{.from = just(0), .to = just(2), .quality = {.bandwidth = 1e-15}}};
  options.scenario.faults = {fault(FaultKind::kill, 2s, just(1), 1s)};
  Simulator world(options, idle_peers(options));
  Time last{};
  while (world.step(Time(20s))) {
    REQUIRE(world.now() >= last);
    last = world.now();
  }
  CHECK(last > Time(10s));
}

TEST_CASE("a stopped peer told to leave does when it wakes and comes back when its time is over",
          "[sim]") {
  Simulator::Options options = small_world(3, 22);
  options.node.course.steps = 1 << 30;
  options.scenario.faults = {fault(FaultKind::stop, 1s, just(1), 3s),
                             fault(FaultKind::leave, 2s, just(1), 10s)};
  Simulator world(options, idle_peers(options));
  world.run(Time(3s));
  CHECK(world.peer(1).state == PeerState::stopped);
  world.run(Time(10s));
  CHECK(world.peer(1).state == PeerState::ended);
  CHECK(world.peer(1).spent.stopped == Approx(3));
  world.run(Time(13s));
  CHECK(world.peer(1).state == PeerState::up);
}

TEST_CASE("a world waits for a peer that left and is to come back", "[sim]") {
  Simulator::Options options = small_world(3, 23);
  options.node.course.steps = 100;
  options.scenario.faults = {fault(FaultKind::leave, 500ms, just(1), 60s)};
  Simulator world(options, idle_peers(options));
  world.run(Time(300s));
  CHECK(world.all_ended());
  CHECK(world.now() > Time(60s));
  CHECK(world.peer(1).work->step() == 100);
}

TEST_CASE("a latecomer downloads a model and joins in", "[sim]") {
  Simulator::Options options = small_world(4, 8);
  options.scenario.links = {every_link({.latency = 2ms})};
  options.scenario.faults = {fault(FaultKind::join, 10s, just(3))};
  int fetched = 0;
  FactWatch watch([&](const Simulator&, PeerNumber peer, const Fact& fact) {
    if (peer == 3 && std::holds_alternative<ModelFetched>(fact)) ++fetched;
  });
  Simulator world(options, idle_peers(options));
  world.watch(watch);
  world.run(Time(9s));
  CHECK(world.peer(3).state == PeerState::absent);
  CHECK(world.peer(0).node->membership().view().size() == 3);
  world.run(Time(15s));
  CHECK(world.peer(3).state == PeerState::up);
  CHECK(fetched == 1);
  // The peer has the others' step, rather than the one it would have reached from step 0.
  CHECK(world.peer(3).work->step() > 600);
  CHECK(world.peer(3).node->as<GossipMode>()->exchange().counts().committed > 0);
  for (PeerNumber number = 0; number < 4; ++number) {
    CHECK(world.peer(number).node->membership().view().size() == 4);
  }
}

TEST_CASE("a peer told to leave saves and says so and is nobody's dead", "[sim]") {
  Simulator::Options options = small_world(4, 9);
  options.scenario.links = {every_link({.latency = 2ms})};
  options.scenario.faults = {fault(FaultKind::leave, 5s, just(1))};
  FactCounts seen;
  FactWatch watch([&](const Simulator&, PeerNumber, const Fact& fact) {
    if (peer_of_fact(fact) == id_of(1)) seen.add(fact);
  });
  Simulator world(options, idle_peers(options));
  world.watch(watch);
  world.run(Time(4999ms));
  const std::uint64_t before = world.peer(1).work->step();
  world.run(Time(30s));
  CHECK(world.peer(1).state == PeerState::ended);
  CHECK(seen.of<MemberLeft>() == 3);
  CHECK(seen.of<MemberDead>() == 0);
  CHECK(seen.of<MemberSuspected>() == 0);
  CHECK(world.peer(1).work->step() >= before);
  Disk disk = world.peer(1).disk;
  REQUIRE(disk.newest() != nullptr);
  CHECK(disk.newest()->step == world.peer(1).work->step());
  CHECK_FALSE(world.all_ended());
}

TEST_CASE("a world ends when every budget is done and nobody waits for anybody", "[sim]") {
  Simulator::Options options = small_world(4, 10);
  options.node.course.steps = 200;
  options.scenario.speeds = {{.peers = just(0), .factor = 0.5}};
  Simulator world(options, idle_peers(options));
  world.run(Time(1h));
  CHECK(world.all_ended());
  // 200 steps of 20 ms at half the pace take 8 s. The other peers wait for the slowest.
  CHECK(world.now() > Time(7s));
  CHECK(world.now() < Time(10s));
  for (PeerNumber number = 0; number < 4; ++number) {
    CHECK(world.peer(number).state == PeerState::ended);
    CHECK(world.peer(number).work->step() == 200);
  }
}

// ---- Computation of peers ----

TEST_CASE("one virtual peer trains bit for bit as its trainer alone", "[sim]") {
  const auto data = std::make_shared<const DataSet>(
      generate_blobs({.samples = 600, .features = 8, .classes = 4, .seed = 3}, 0));
  const TrainerSpec spec{.model = mlp({16}, 4),
                         .schedule = {.kind = ScheduleKind::cosine, .learning_rate = 0.05},
                         .batch = 20,
                         .steps = 150,
                         .seed = 3};
  const auto alone = built_in_learner(spec, data);
  alone->run_steps(150);

  Simulator::Options options = small_world(1, 11);
  options.node.course.steps = 150;
  options.node.course.layout_hash = alone->layout().hash();
  options.node.course.elements = alone->layout().size();
  Simulator world(options, [&](std::size_t peer) {
    return std::make_unique<WholeReplica>(built_in_learner(spec, data), peer);
  });
  world.run(Time(1min));
  CHECK(world.all_ended());
  const auto virtually = world.peer(0).work->parameters();
  CHECK(world.peer(0).work->step() == 150);
  CHECK(std::ranges::equal(virtually, alone->parameters()));
}

TEST_CASE("one peer on a noiseless quadratic comes to its optimum at the rate of the formula",
          "[sim]") {
  // Gradient descent on h/2 (x - c)^2 gives x_t - c = (1 - lr h)^t (x_0 - c), exactly. The workload
  // keeps x in float, so each step adds at most half a unit in the last place of x (6e-8 of |x|,
  // and all |x| here are below 5). Errors shrink by 1 - lr h too, so after any number of steps
  // their sum is below 5 * 6e-8 / (lr h) <= 3e-5 for the flattest direction, h = 0.1.
  const QuadraticSpec spec{.dimension = 16, .learning_rate = 0.1, .noise = 0, .seed = 12};
  Simulator::Options options = small_world(1, 12);
  options.node.course.steps = 3000;
  Simulator world(options, [&](std::size_t peer) { return quadratic_workload(spec, peer); });
  const std::vector<double> optimum = quadratic_optimum(spec, 0);
  for (const double value : optimum) REQUIRE(std::abs(value) < 5);
  const auto check_rate = [&] {
    const auto x = world.peer(0).work->parameters();
    const double t = static_cast<double>(world.peer(0).work->step());
    for (std::size_t k = 0; k < spec.dimension; ++k) {
      const double h =
          0.1 * std::pow(10, static_cast<double>(k + 1) / static_cast<double>(spec.dimension));
      const double wanted = optimum[k] * (1 - std::pow(1 - 0.1 * h, t));
      const double rounding = 5 * 6e-8 / (0.1 * h);
      INFO("step " << t << " coordinate " << k);
      CHECK(std::abs(x[k] - wanted) < rounding);
    }
  };
  for (const Duration when : {200ms, 1000ms, 2500ms, 10000ms}) {
    world.run(Time(when));
    check_rate();
  }
  world.run(Time(2min));
  CHECK(world.peer(0).work->step() == 3000);
  check_rate();
  for (std::size_t k = 0; k < spec.dimension; ++k) {
    CHECK(world.peer(0).work->parameters()[k] == Approx(optimum[k]).margin(3e-5));
  }
}

TEST_CASE("speeds and links of random peers are drawn from the seed of the world", "[sim]") {
  std::set<std::size_t> drawn;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    Simulator::Options options = small_world(5, seed);
    options.scenario.speeds = {{.peers = {.any = 2}, .factor = 0.1}};
    options.scenario.links = {every_link({.loss = 1})};
    options.scenario.links.front().from = {.any = 4};
    Simulator world(options, idle_peers(options));
    world.run(Time(2s));
    std::size_t slow = 0;
    for (PeerNumber number = 0; number < world.size(); ++number) {
      if (world.peer(number).speed != 0.1) continue;
      ++slow;
      drawn.insert(number);
    }
    CHECK(slow == 2);
    CHECK(world.counts().lost > 0);
  }
  CHECK(drawn.size() == 5);
}

}  // namespace gv
