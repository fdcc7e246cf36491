// Worlds with a budget that belongs to the swarm, and the results of their peers.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "base/fingerprint.hpp"
#include "peer/modes/allreduce.hpp"
#include "peer/node/whole_replica.hpp"
#include "sim/virtual/finale_invariants.hpp"
#include "sim/virtual/invariants.hpp"
#include "sim/virtual/ledger_invariants.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {

using namespace std::chrono_literals;

inline constexpr std::uint64_t batch = 64;

/// A way in which peers use up a budget together.
enum class Way { gossip, rounds, rounds_without_waiting, lockstep };

inline MixRule rule_of(Way way) {
  MixRule rule;
  if (way == Way::rounds_without_waiting) rule.staleness = unbounded_staleness;
  return rule;
}

/// Peers with steps of 20 ms. Together they share a budget of `steps` steps per peer.
inline Simulator::Options world_of(std::size_t peers, std::uint64_t steps, Way way = Way::gossip) {
  Simulator::Options options = small_world(peers, 1);
  options.node.mode = way == Way::gossip     ? ModeKind::gossip
                      : way == Way::lockstep ? ModeKind::allreduce
                                             : ModeKind::mixing;
  options.node.course.wait_for_peers = peers;
  options.node.allreduce.batch = batch;
  options.node.allreduce.state_elements = options.node.course.elements;
  options.node.mixing.rule = rule_of(way);
  options.node.mixing.batch = batch;
  options.node.mixing.state_elements = options.node.course.elements;
  options.node.course.work = {.budget = steps * peers * batch,
                              .batch = batch,
                              .data = 1,
                              .all_data = peers,
                              .weigh_max = 4};
  options.node.gossip.mean = {
      .state_elements = options.node.course.elements, .averages_models = true, .batch = 1};
  options.node.mixing.mean = options.node.gossip.mean;
  options.node.course.linger = 20s;
  options.node.course.waits_for_dead = true;
  options.scenario.until = 300s;
  return options;
}

/// Peers that descend towards optima of their own, so that their models differ until the end.
inline MakeWorkload learners(const Simulator::Options& options) {
  const QuadraticSpec spec{
      .dimension = options.scenario.dimension, .noise = 0.1, .disagreement = 0.5};
  return [spec, options](std::size_t peer) {
    auto workload = quadratic_workload(spec, peer);
    if (options.node.mode == ModeKind::mixing) workload->mix_by(options.node.mixing.rule, 1);
    return workload;
  };
}

/// Runs a world to its end, and keeps its peers' results.
class Ending : public Watcher {
 public:
  explicit Ending(const Simulator::Options& options) : Ending(options, learners(options)) {}
  Ending(const Simulator::Options& options, MakeWorkload workloads)
      : world(options, std::move(workloads)), options_(options) {
    world.watch(*this);
    world.watch(laws);
    world.watch(leases);
    world.watch(always);
  }

  void on_job_done(const Simulator& simulator, PeerNumber peer, const JobDone& done) override {
    const bool trains = first_of<task::TakeSteps>(done.job.tasks) != nullptr ||
                        (simulator.peer(peer).node->as<AllReduceMode>() != nullptr &&
                         first_of<task::ApplyUpdate>(done.job.tasks) != nullptr);
    if (trains) trained += done.steps_run;
    const auto* saved = first_of<task::Save>(done.job.tasks);
    const bool is_end = saved != nullptr && saved->is_common_end;
    means_measured += is_end && first_of<result::Measured>(done.results) != nullptr;
    ends[peer] = fingerprint(simulator.peer(peer).work->parameters());
  }
  void on_effects(const Simulator& simulator, PeerNumber peer,
                  const NodeEffects& effects) override {
    for (const Fact& fact : effects.facts) {
      if (std::holds_alternative<FinaleBegan>(fact)) began.try_emplace(peer, simulator.now());
      if (std::holds_alternative<FinaleDone>(fact)) done.insert_or_assign(peer, simulator.now());
      downloads += std::holds_alternative<StateAdopted>(fact);
      const auto* quarantined = std::get_if<LinkQuarantined>(&fact);
      if (quarantined != nullptr && peer < 3) refused.insert(quarantined->peer);
    }
  }

  void run() {
    world.run(Time(options_.scenario.until));
    if (laws.violation()) UNSCOPED_INFO(laws.violation()->what);
    if (always.violation()) UNSCOPED_INFO(always.violation()->what);
    if (leases.violation()) UNSCOPED_INFO(leases.violation()->what);
    REQUIRE_FALSE(laws.violation());
    REQUIRE_FALSE(leases.violation());
    REQUIRE_FALSE(always.violation());
    REQUIRE(world.all_ended());
  }

  /// The number of different models with which these peers end.
  std::size_t models(const std::vector<PeerNumber>& peers) const {
    std::set<std::uint64_t> all;
    for (const PeerNumber peer : peers) all.insert(ends.at(peer));
    return all.size();
  }
  double first_stop_s() const {
    return seconds(std::ranges::min_element(began, {}, [](const auto& one) {
                     return one.second;
                   })->second.time_since_epoch());
  }
  double first_done_s() const {
    return seconds(std::ranges::min_element(done, {}, [](const auto& one) {
                     return one.second;
                   })->second.time_since_epoch());
  }
  double budget_steps() const {
    return static_cast<double>(options_.node.course.work.budget) / batch;
  }

  Simulator world;
  FinaleInvariants laws;
  LedgerInvariants leases;
  Invariants always;
  std::uint64_t trained = 0;
  std::size_t downloads = 0;  ///< Downloads of the common mean.
  std::size_t means_measured = 0;
  std::set<PeerId> refused;  ///< Peers refused by the first three peers.
  std::map<PeerNumber, Time> began;
  std::map<PeerNumber, Time> done;
  std::map<PeerNumber, std::uint64_t> ends;

 private:
  Simulator::Options options_;
};

inline Simulator::Options with(Simulator::Options options, const FaultRule& rule) {
  options.scenario.faults.push_back(rule);
  return options;
}

}  // namespace gv
