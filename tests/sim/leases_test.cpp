// Leased data until the common end: faster peers get more chunks, and the chunks of dead peers are
// trained by others.
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/virtual/ledger_tally.hpp"
#include "tests/sim/ending.hpp"

namespace gv {
namespace {

/// Returns these options with leased data, in chunks of eight steps.
Simulator::Options leased(Simulator::Options options) {
  options.node.course.work.chunk_steps = 8;
  options.node.course.work.weigh_max = 1;
  return options;
}

/// Chunks trained by all peers together, and how many of them had been done before.
struct Trained {
  std::uint64_t chunks = 0;
  std::uint64_t repeated = 0;
};

class LedgerWatch : public Watcher {
 public:
  void on_job_done(const Simulator& world, PeerNumber peer, const JobDone&) override {
    const auto& node = world.peer(peer).node;
    const SwarmWork* work = node ? node->mode().swarm_work() : nullptr;
    if (work == nullptr || work->ledger() == nullptr) return;
    counts_[{peer, world.peer(peer).incarnation}] = work->ledger()->counts();
  }
  Trained all() const {
    Trained sum;
    for (const auto& [life, counts] : counts_) {
      sum.chunks += counts.trained;
      sum.repeated += counts.repeated;
    }
    return sum;
  }

 private:
  std::map<std::pair<PeerNumber, int>, Ledger::Counts> counts_;
};

}  // namespace

TEST_CASE("leased chunks follow each peer's pace, and nearly all are trained once", "[sim]") {
  Simulator::Options options = leased(world_of(4, 800));
  options.scenario.speeds.push_back({just(3), 0.1});
  Ending end(options);
  LedgerWatch ledger;
  LedgerTally tally;
  end.world.watch(ledger);
  end.world.watch(tally);
  end.run();
  CHECK(end.models({0, 1, 2, 3}) == 1);
  CHECK(tally.samples() == 3200 * batch);
  CHECK(tally.trained() == tally.samples());
  CHECK(tally.again() <= 4 * 8 * batch);
  CHECK(ledger.all().chunks >= 400);
  CHECK(ledger.all().chunks <= 404);
  // The budget is 3200 steps, and all peers together make 155 steps a second.
  CHECK(end.first_stop_s() <= 1.1 * 3200 / 155.0 + 1);
}

TEST_CASE("the slow ones among leased data believe what a far faster peer has done", "[sim]") {
  const double factor = GENERATE(0.1, 0.02);
  Simulator::Options options = leased(world_of(4, 400));
  options.scenario.speeds.push_back({{.ranges = {{1, 3}}}, factor});
  Ending end(options);
  LedgerTally tally;
  end.world.watch(tally);
  INFO("three peers at " << factor << " of the pace of the first");
  end.run();
  CHECK(end.models({0, 1, 2, 3}) == 1);
  CHECK(tally.again() <= 16 * 8 * batch);
  // The first peer makes fifty steps a second.
  CHECK(end.first_stop_s() <= 1.2 * 1600 / (50 * (1 + 3 * factor)) + 2);
}

TEST_CASE("leased chunks of a peer that dies, sleeps or is cut off are trained by the others",
          "[sim]") {
  const std::vector<FaultRule> faults = {fault(FaultKind::kill, 6s, just(1)),
                                         fault(FaultKind::kill, 6s, just(1), 2s),
                                         fault(FaultKind::stop, 6s, just(1), 8s),
                                         fault(FaultKind::partition, 6s, {.ranges = {{0, 1}}}, 6s)};
  for (const FaultRule& rule : faults) {
    Ending end(with(leased(world_of(4, 800)), rule));
    LedgerWatch ledger;
    end.world.watch(ledger);
    INFO(to_string(rule.kind));
    end.run();
    CHECK(end.models({0, 2, 3}) == 1);
    CHECK(ledger.all().chunks >= 400);
    // During a partition, both halves train the same samples.
    CHECK(ledger.all().chunks <= (rule.kind == FaultKind::partition ? 560 : 430));
  }
}

namespace {

/// Finds the first moment later than three seconds at which the second peer reaches a named point
/// of a lease.
class LeasePoint : public Watcher {
 public:
  explicit LeasePoint(std::string name) : name_(std::move(name)) {}

  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override {
    if (peer != 1) return;
    for (const Job& job : effects.jobs) {
      const auto* steps = first_of<task::TakeSteps>(job.tasks);
      if (steps == nullptr || !steps->from) continue;
      const std::uint64_t chunk_steps = world.options().node.course.work.chunk_steps;
      if (*steps->from / batch % chunk_steps == 0) reach(world, "begins");
    }
    for (const Outgoing& out : effects.messages) {
      if (std::holds_alternative<Commit>(out.message)) reach(world, "commits");
    }
  }
  void after(const Simulator& world, PeerNumber peer) override {
    const auto& node = world.peer(peer).node;
    if (peer != 1 || !node) return;
    const Ledger& ledger = *node->mode().swarm_work()->ledger();
    if (ledger.ahead() > ahead_) reach(world, "takes");
    if (ledger.counts().trained > trained_) reach(world, "trained");
    if (ledger.own_part().done > done_) reach(world, "done");
    ahead_ = ledger.ahead();
    trained_ = ledger.counts().trained;
    done_ = ledger.own_part().done;
  }

  std::optional<Duration> when;  ///< Empty if the point was not reached.

 private:
  void reach(const Simulator& world, const std::string& point) {
    if (point == name_ && !when && world.now() > Time(3s)) {
      when = world.now().time_since_epoch();
    }
  }

  std::string name_;
  std::uint64_t ahead_ = 0;
  std::uint64_t trained_ = 0;
  std::uint64_t done_ = 0;
};

}  // namespace

TEST_CASE("whatever happens at a named point of a lease, every sample is trained and all end alike",
          "[sim]") {
  const std::string point =
      GENERATE(as<std::string>(), "takes", "begins", "trained", "commits", "done");
  // The fourth peer comes late if it is the one to join, so all worlds begin in the same way.
  const bool joins = GENERATE(false, true);
  Simulator::Options options = leased(world_of(4, 400));
  options.wait_for = joins ? 3 : 4;
  Ending search(joins ? with(options, fault(FaultKind::join, 9s, just(3))) : options);
  LeasePoint found(point);
  search.world.watch(found);
  search.run();
  REQUIRE(found.when);
  std::vector<FaultRule> faults = {
      fault(FaultKind::kill, {}, just(1)), fault(FaultKind::kill, {}, just(1), 2s),
      fault(FaultKind::restart, {}, just(1)), fault(FaultKind::stop, {}, just(1), 8s),
      fault(FaultKind::partition, {}, just(1), 6s)};
  if (joins) faults = {fault(FaultKind::join, {}, just(3))};
  for (FaultRule& rule : faults) {
    for (const Duration later : {Duration(-1ns), Duration(1us)}) {
      rule.at = *found.when + later;
      INFO(to_string(rule.kind) << " where it " << point << ", at " << seconds(rule.at) << " s");
      Ending end(with(options, rule));
      LedgerTally tally;
      end.world.watch(tally);
      end.run();
      CHECK(end.models({0, 2, 3}) == 1);
      CHECK(tally.samples() == 1600 * batch);
      CHECK(tally.trained() == tally.samples());
    }
  }
}

TEST_CASE("more than half of the drawn worlds have a budget of the swarm and a quarter leased data",
          "[sim]") {
  constexpr std::uint64_t worlds = 1000;
  std::uint64_t budgets = 0;
  std::uint64_t leases = 0;
  for (std::uint64_t seed = 1; seed <= worlds; ++seed) {
    const Config config = draw_world(seed).config;
    budgets += config.run.budget == BudgetKind::swarm;
    leases += config.data.partition.kind == PartitionKind::leased;
  }
  CHECK(2 * budgets > worlds);
  CHECK(4 * leases > worlds);
}

TEST_CASE("a late joiner takes leases at once", "[sim]") {
  Simulator::Options options = leased(world_of(4, 800));
  options.wait_for = 3;
  Ending end(with(options, fault(FaultKind::join, 8s, just(3))));
  end.run();
  CHECK(end.models({0, 1, 2, 3}) == 1);
  // Three peers make 1200 steps in 8 s, and then four peers make the other 2000 in 10 s.
  CHECK(end.first_stop_s() <= 8 + 10 + 1.5);
}

TEST_CASE("in lockstep and in rounds every sample of leased data is trained once", "[sim]") {
  for (const Way way : {Way::rounds, Way::lockstep}) {
    Simulator::Options options = leased(world_of(4, 100, way));
    options.node.allreduce.is_leased = true;
    options.node.mixing.is_leased = true;
    Ending end(options);
    std::multiset<std::uint64_t> read;
    class Reads : public Watcher {
     public:
      explicit Reads(std::multiset<std::uint64_t>& all) : all_(all) {}
      void on_job_done(const Simulator&, PeerNumber, const JobDone& done) override {
        const auto* steps = first_of<task::TakeSteps>(done.job.tasks);
        const auto* gradient = first_of<task::ComputeGradient>(done.job.tasks);
        if (steps != nullptr && steps->from) all_.insert(*steps->from);
        if (gradient != nullptr && gradient->from) all_.insert(*gradient->from);
      }

     private:
      std::multiset<std::uint64_t>& all_;
    } reads(read);
    end.world.watch(reads);
    end.run();
    INFO("way " << static_cast<int>(way));
    REQUIRE(read.size() == 400);
    std::uint64_t next = 0;
    for (const std::uint64_t from : read) {
      REQUIRE(from == next);
      next += batch;
    }
  }
}

}  // namespace gv
