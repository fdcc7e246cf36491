// The checkers of leased data, tested on peers whose jobs and reports are made up.
#include "sim/virtual/ledger_invariants.hpp"

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <string>

#include "tests/sim/ending.hpp"

namespace gv {
namespace {

constexpr std::uint64_t chunk_steps = 25;

/// Two peers that train for minutes on leased data, in chunks of half a second.
Simulator::Options long_lease() {
  Simulator::Options options = world_of(2, 100'000);
  options.node.course.work.chunk_steps = chunk_steps;
  options.node.course.work.weigh_max = 1;
  return options;
}

std::string broken(const LedgerInvariants& checker) {
  return checker.violation() ? checker.violation()->invariant : "nothing";
}

Job job_on(std::uint64_t first_step, std::uint64_t steps) {
  Job job;
  job.add(task::TakeSteps{.count = steps, .from = first_step * batch});
  return job;
}

/// Tells the checker that the first peer asks for this job.
void ask(LedgerInvariants& checker, const Simulator& world, const Job& job) {
  NodeEffects effects;
  effects.jobs.push_back(job);
  checker.on_effects(world, 0, effects);
}

/// Tells the checker that the peer has trained the chunk.
void train(LedgerInvariants& checker, const Simulator& world, PeerNumber peer,
           std::uint64_t chunk) {
  JobDone done;
  done.job = job_on(chunk * chunk_steps, chunk_steps);
  done.steps_run = chunk_steps;
  checker.on_job_done(world, peer, done);
}

}  // namespace

TEST_CASE("a step of leased data beyond the budget is found out", "[sim]") {
  const Simulator::Options options = long_lease();
  Simulator world(options, learners(options));
  world.run(Time(1s));
  LedgerInvariants checker;
  ask(checker, world, job_on(199'999, 1));
  CHECK(broken(checker) == "nothing");
  ask(checker, world, job_on(199'999, 2));
  CHECK(broken(checker) == "no work beyond the budget");
}

TEST_CASE("a report of a chunk that its peer has only claimed is found out", "[sim]") {
  const Simulator::Options options = long_lease();
  Simulator world(options, learners(options));
  world.run(Time(1s));
  for (const bool has_trained : {true, false}) {
    LedgerInvariants checker;
    train(checker, world, 0, 7);
    if (has_trained) train(checker, world, 0, 8);
    NodeEffects effects;
    Ping ping;
    ping.progress.work = WorkDone{.ledger = LedgerEntry{0, {{7, 2}}, {}}};
    effects.send(id_of(1), ping);
    checker.on_effects(world, 0, effects);
    CHECK(broken(checker) == (has_trained ? "nothing" : "reports of chunks are true"));
  }
}

TEST_CASE("chunks that are counted as trained and were not are found out", "[sim]") {
  const Simulator::Options options = long_lease();
  Simulator world(options, learners(options));
  LedgerInvariants sound;
  world.watch(sound);
  world.run(Time(10s));
  CHECK(broken(sound) == "nothing");
  LedgerInvariants blind;  // This checker has seen no job.
  blind.after(world, 0);
  CHECK(broken(blind) == "figures add up");
}

TEST_CASE("chunks trained again and again without a fault are found out", "[sim]") {
  const Simulator::Options options = long_lease();
  Simulator world(options, learners(options));
  world.run(Time(1s));
  LedgerInvariants checker;
  // Three chunks for each peer are allowed, plus those that it trains in a second.
  for (int i = 0; i <= 10; ++i) train(checker, world, 0, 3);
  CHECK(broken(checker) == "nothing");
  train(checker, world, 1, 3);
  CHECK(broken(checker) == "once in quiet");
}

TEST_CASE("a peer that begins what the others have long known to be done is found out", "[sim]") {
  const Simulator::Options options = long_lease();
  Simulator world(options, learners(options));
  LedgerInvariants checker;
  for (const Time at : {Time(10s), Time(50s)}) {
    world.run(at);
    ask(checker, world, job_on(1000 * chunk_steps, 1));
    CHECK(broken(checker) == "nothing");
  }
  ask(checker, world, job_on(0, 1));
  CHECK(broken(checker) == "known work is not repeated");
}

}  // namespace gv
