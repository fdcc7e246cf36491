// An all-reduce peer whose model differs from the others' is detected and downloads theirs.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "consensus/generation/model_audit.hpp"
#include "peer/modes/generations.hpp"
#include "sim/virtual/draw.hpp"
#include "sim/virtual/simulator.hpp"
#include "tests/sim/other_replica.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t harmed_at = 100;  ///< The step of the sum that is changed.

/// In one update, this workload applies a different sum from all others, as if another peer had
/// changed a piece in transit or a bit of memory had flipped.
class Harmed : public OtherReplica {
 public:
  using OtherReplica::OtherReplica;

  JobDone run(Job job) override {
    auto* update = first_of<task::ApplyUpdate>(job.tasks);
    if (update != nullptr && step() == harmed_at) {
      auto other = std::make_shared<Floats>(*update->values);
      other->at(17) += 0.25F;
      update->values = std::move(other);
    }
    return OtherReplica::run(std::move(job));
  }
};

/// A workload that sends other peers a state of huge values.
class Boastful : public OtherReplica {
 public:
  using OtherReplica::OtherReplica;

  JobDone run(Job job) override {
    JobDone done = OtherReplica::run(std::move(job));
    const auto* copied = first_of<task::ExportState>(done.job.tasks);
    if (copied != nullptr) std::ranges::fill(*copied->values, 0x1p100F);
    return done;
  }
};

class Seen : public Watcher {
 public:
  void on_effects(const Simulator&, PeerNumber peer, const NodeEffects& effects) override {
    for (const Fact& fact : effects.facts) {
      if (const auto* it = std::get_if<ModelsDiffer>(&fact)) differ.emplace_back(peer, it->peer);
      // Peers that are one collective behind when the ballot comes may download the state, too.
      if (std::holds_alternative<StateAdopted>(fact) && !differ.empty()) adopted.insert(peer);
    }
  }
  void on_job_done(const Simulator&, PeerNumber, const JobDone& done) override {
    const auto* own = first_of<result::Fingerprint>(done.results);
    if (own != nullptr) fingerprints[done.step].insert(own->value);
  }
  void after(const Simulator& world, PeerNumber peer) override {
    const auto& node = world.peer(peer).node;
    if (!node) return;
    const std::uint64_t now = node->generations()->agreement().version().samples;
    const std::uint64_t before = std::exchange(samples[peer], now);
    if (now > before && collective == 0) collective = now - before;
    if (now < before) given_up[peer] += before - now;
  }

  std::vector<std::pair<PeerNumber, PeerId>> differ;  ///< Reports, as reporter and accused peer.
  std::set<PeerNumber> adopted;                       ///< Peers that adopted a state later.
  std::map<std::uint64_t, std::set<std::uint64_t>> fingerprints;  ///< Keyed by step.
  std::map<PeerNumber, std::uint64_t> samples;   ///< The samples of each peer's version.
  std::map<PeerNumber, std::uint64_t> given_up;  ///< Samples that each peer's version has lost.
  std::uint64_t collective = 0;                  ///< Samples of the first collective.
};

/// Runs an all-reduce of `peers` peers for 20 seconds, with 20 collectives a second. The peers in
/// `harmed` get one wrong sum.
Seen run(std::size_t peers, const std::set<std::size_t>& harmed) {
  DrawnWorld drawn{.seed = 1};
  drawn.scenario.peers = peers;
  drawn.scenario.work = WorkKind::quadratic;
  drawn.scenario.step = 50ms;
  drawn.scenario.dimension = 700;
  drawn.scenario.until = 20s;
  drawn.config.run.mode = ModeKind::allreduce;
  drawn.segment_elements = drawn.scenario.dimension;
  const MakeWorkload sound = workloads(drawn);
  Simulator world(simulator_options(drawn), [&](std::size_t peer) -> std::unique_ptr<Replica> {
    if (!harmed.contains(peer)) return sound(peer);
    return std::make_unique<Harmed>(sound(peer));
  });
  Seen seen;
  world.watch(seen);
  world.run(Time(20s));
  return seen;
}

}  // namespace

TEST_CASE("who has another model than the others is found out and sent theirs", "[sim]") {
  const std::size_t harmed = GENERATE(std::size_t{0}, std::size_t{2}, std::size_t{3});
  const Seen seen = run(4, {harmed});
  REQUIRE(seen.fingerprints.size() > 4);
  for (const auto& [operation, different] : seen.fingerprints) {
    INFO("operation " << operation);
    // The generation in which the odd peer gets the others' state begins after collective 129.
    CHECK((operation % ModelAudit::every == 0 || operation == 129));
    CHECK(different.size() == (operation == 128 ? 2 : 1));
  }
  // Each peer reports once, and all accuse the same peer.
  REQUIRE(seen.differ.size() == 4);
  std::set<PeerNumber> sayers;
  for (const auto& [sayer, odd] : seen.differ) {
    sayers.insert(sayer);
    CHECK(odd == seen.differ.front().second);
  }
  CHECK(sayers.size() == 4);
  CHECK(seen.adopted.contains(static_cast<PeerNumber>(harmed)));
  // If the others died now, the odd peer would go on from its own model, and would have to train
  // again on samples that it does not count.
  REQUIRE(seen.given_up.size() == 1);
  CHECK(seen.given_up.begin()->first == static_cast<PeerNumber>(harmed));
  CHECK(seen.given_up.begin()->second <= seen.collective + 1);
}

TEST_CASE("where models differ each goes on from that of most", "[sim]") {
  const Seen minority = run(5, {1, 4});
  CHECK(minority.adopted.contains(1));
  CHECK(minority.adopted.contains(4));
  const Seen majority = run(3, {0, 2});
  CHECK(majority.adopted.contains(1));
  for (const Seen* seen : {&minority, &majority}) {
    REQUIRE(seen->fingerprints.size() > 4);
    for (const auto& [operation, different] : seen->fingerprints) {
      CHECK(different.size() == (operation == 128 ? 2 : 1));
    }
  }
}

TEST_CASE("a state that only its source has is refused if it is far longer than our own", "[sim]") {
  DrawnWorld drawn{.seed = 1};
  drawn.scenario.peers = 2;
  drawn.scenario.work = WorkKind::quadratic;
  drawn.scenario.step = 50ms;
  drawn.scenario.dimension = 700;
  drawn.scenario.until = 90s;
  // Both peers train alone for a while, so one of them has seen more samples when they meet again.
  drawn.scenario.faults.push_back(fault(FaultKind::partition, 5s, just(0), 20s));
  drawn.config.run.mode = ModeKind::allreduce;
  drawn.segment_elements = drawn.scenario.dimension;
  const MakeWorkload sound = workloads(drawn);
  Simulator world(simulator_options(drawn), [&](std::size_t peer) -> std::unique_ptr<Replica> {
    return std::make_unique<Boastful>(sound(peer));
  });
  std::map<PeerNumber, std::uint64_t> refused_at;  // The step at which each peer refused a state.
  FactWatch facts([&](const Simulator& seen, PeerNumber peer, const Fact& fact) {
    const auto* refused = std::get_if<ModelRefused>(&fact);
    if (refused == nullptr) return;
    CHECK(refused->reason == Reason::norm_exceeded);
    refused_at.try_emplace(peer, seen.peer(peer).work->step());
  });
  world.watch(facts);
  world.run(Time(90s));
  REQUIRE_FALSE(refused_at.empty());
  for (const auto& [peer, step] : refused_at) CHECK(world.peer(peer).work->step() > step + 100);
  for (const std::vector<float>& model : models(world)) {
    CHECK(std::ranges::all_of(model, [](float value) { return std::abs(value) < 1000; }));
  }
}

}  // namespace gv
