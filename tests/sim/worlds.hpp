// Small virtual worlds for tests, and watchers that record what happens in them.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "peer/modes/gossip.hpp"
#include "sim/virtual/draw.hpp"
#include "sim/virtual/simulator.hpp"
#include "sim/virtual/stand_ins.hpp"
#include "sim/virtual/swarm.hpp"
#include "train/learner/layout.hpp"

namespace gv {

/// The invariant that a world violated, and how; empty if it violated none.
inline std::string text_of(const Verdict& verdict) {
  return verdict.violation ? verdict.violation->invariant + ": " + verdict.violation->what : "";
}

/// Peers that train until the test stops them, on perfect links. They make a step in 20 ms and an
/// exchange every 10 steps, and have `dimension` parameters. Clipping is off, so exchanges are
/// linear.
inline Simulator::Options small_world(std::size_t peers, std::uint64_t seed,
                                      std::size_t dimension = 16) {
  Layout layout;
  layout.add("x", {dimension});
  Simulator::Options options{.peers = peers, .seed = seed};
  options.scenario.dimension = dimension;
  CourseOptions& course = options.node.course;
  course.run_seed = seed;
  course.steps = endless_steps;
  course.layout_hash = layout.hash();
  course.elements = layout.size();
  GossipOptions& gossip = options.node.gossip;
  gossip.period_steps = 10;
  gossip.exchange.clip_factor = 0;
  return options;
}

inline MakeWorkload idle_peers(const Simulator::Options& options) {
  return [dimension = options.scenario.dimension, seed = options.seed](std::size_t peer) {
    return idle_workload(dimension, seed, peer);
  };
}

inline LinkRule every_link(const LinkQuality& quality) {
  LinkRule rule;
  rule.quality = quality;
  return rule;
}

inline FaultRule fault(FaultKind kind, Duration at, PeerSet peers, Duration lasts = {}) {
  FaultRule rule;
  rule.kind = kind;
  rule.at = at;
  rule.lasts = lasts;
  rule.peers = std::move(peers);
  return rule;
}

inline PeerSet just(std::size_t peer) { return {.ranges = {{peer, peer}}}; }

/// Calls `see` for each fact that a peer reports.
class FactWatch : public Watcher {
 public:
  using See = std::function<void(const Simulator&, PeerNumber, const Fact&)>;
  explicit FactWatch(See see) : see_(std::move(see)) {}
  void on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) override {
    for (const Fact& fact : effects.facts) see_(world, peer, fact);
  }

 private:
  See see_;
};

/// Number of exchanges that each peer has committed.
inline std::vector<std::uint64_t> committed(const Simulator& world) {
  std::vector<std::uint64_t> counts;
  for (PeerNumber number = 0; number < world.size(); ++number) {
    const auto& node = world.peer(number).node;
    counts.push_back(node ? node->as<GossipMode>()->exchange().counts().committed : 0);
  }
  return counts;
}

/// The parameters of every peer; an empty vector for a peer that is down.
inline std::vector<std::vector<float>> models(const Simulator& world) {
  std::vector<std::vector<float>> all;
  for (PeerNumber number = 0; number < world.size(); ++number) {
    const auto& work = world.peer(number).work;
    all.emplace_back();
    if (work) all.back().assign(work->parameters().begin(), work->parameters().end());
  }
  return all;
}

}  // namespace gv
