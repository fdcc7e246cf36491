// Runs a world with all its checkers, heals it and waits for progress. Shrinks a failing world.
#include "sim/virtual/swarm.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "peer/modes/allreduce.hpp"
#include "peer/modes/gossip.hpp"
#include "peer/modes/mixing.hpp"
#include "peer/modes/pipeline.hpp"
#include "peer/modes/switchable_mode.hpp"
#include "sim/virtual/allreduce_invariants.hpp"
#include "sim/virtual/finale_invariants.hpp"
#include "sim/virtual/ledger_invariants.hpp"
#include "sim/virtual/mixing_invariants.hpp"
#include "sim/virtual/pipeline_invariants.hpp"
#include "sim/virtual/trust_invariants.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

/// Time after the heal for suspicions to expire, views to merge, newcomers to download and
/// exchanges to settle. Together they need far less, so a timeout means that one of them will never
/// happen.
constexpr Duration heals_within = 180s;
/// At the end, every peer must complete an exchange within `last_part` or, if that is longer,
/// within `last_periods` periods of the slowest peer.
constexpr Duration last_part = 60s;
constexpr double last_periods = 20;
/// If only one peer is silent, no view may contain it once it has been gone for longer than this.
/// Views get this time because peers may still end while the world is judged.
constexpr Duration known_within = 60s;
/// Time after the heal within which all peers must refuse a revoked peer.
constexpr Duration cut_off_within = 30s;
/// Ten times the number of events that the busiest world needs.
constexpr std::uint64_t events_max = 50'000'000;
/// A peer's progress: its number of committed exchanges, collectives, pipeline runs or rounds.
std::uint64_t achieved(const Simulator& world, PeerNumber number) {
  const Node& node = *world.peer(number).node;
  if (node.as<AllReduceMode>() != nullptr) return node.as<AllReduceMode>()->counts().operations;
  if (node.as<PipelineMode>() != nullptr) return node.as<PipelineMode>()->counts().operations;
  if (node.as<MixingMode>() != nullptr) return node.as<MixingMode>()->counts().rounds;
  return node.as<GossipMode>()->exchange().counts().committed;
}

/// The generation that a peer is in; null if it is in none.
const Generation* generation_of(const Node& node) {
  return node.generations() != nullptr ? node.generations()->agreement().generation() : nullptr;
}

bool trains(const Simulator& world, PeerNumber number) {
  const VirtualPeer& peer = world.peer(number);
  return peer.state == PeerState::up && peer.node->mode().phase() == Phase::training;
}

/// True if a hostile peer is up, or has been gone for less than `known_within`.
bool was_hostile_up_lately(const Simulator& world) {
  for (PeerNumber number = 0; number < world.size(); ++number) {
    const VirtualPeer& peer = world.peer(number);
    const bool is_gone = peer.state != PeerState::up && world.now() - peer.since >= known_within;
    if (world.is_hostile(number) && !is_gone) return true;
  }
  return false;
}

/// True if the peer has been gone for so long that no other peer may still have it in its view.
bool is_long_gone(const Simulator& world, const VirtualPeer& peer) {
  return peer.state != PeerState::up &&
         world.now() - peer.since >= known_within + time_for_other_silent_peers(world);
}

/// True if some honest peer now waits for others at every step, so that one peer can stop all
/// peers. In mixing, this depends on the settings revision, and hostile members can send revisions,
/// too. In gossip, and in rounds that do not wait, peers wait for each other only at the common
/// end, and for the mean before a change of mode.
bool is_in_step(const Simulator& world) {
  for (PeerNumber number = 0; number < world.size(); ++number) {
    const VirtualPeer& peer = world.peer(number);
    if (world.is_hostile(number) || peer.state != PeerState::up) continue;
    if (peer.node->mode().phase() == Phase::finishing) return true;
    if (peer.node->switchable().is_switching()) return true;
    if (peer.node->as<GossipMode>() != nullptr) continue;
    const MixingMode* mixing = peer.node->as<MixingMode>();
    if (mixing == nullptr || is_in_step(mixing->options().rule)) return true;
  }
  return false;
}

/// If is_in_step(), revokes all hostile peers, as operators do once they know which peer stops the
/// swarm, and returns true.
bool revoke_hostile_in_step(Simulator& world) {
  if (!is_in_step(world)) return false;
  for (PeerNumber number = 0; number < world.size(); ++number) {
    if (world.is_hostile(number)) world.revoke(number);
  }
  return true;
}

std::optional<Violation> stuck(const Simulator& world, std::string invariant, std::string what) {
  return Violation{std::move(invariant), std::move(what), world.now(), true};
}

/// The options for the current mode of the first peer in `up`.
NodeOptions options_now(const Simulator& world, const std::vector<PeerNumber>& up) {
  if (up.empty()) return world.options().node;
  const Node& peer = *world.peer(up.front()).node;
  NodeOptions node = peer.switchable().options();
  // In mixing, a later revision changes the settings of the same mode.
  if (peer.as<MixingMode>() != nullptr) node.mixing = peer.as<MixingMode>()->options();
  return node;
}

/// The time until the end of the longest current job of an honest peer, among jobs of more than
/// `steps` steps.
Duration wait_for_jobs(const Simulator& world, std::uint64_t steps) {
  Duration wait{};
  for (PeerNumber number = 0; number < world.size(); ++number) {
    const JobLeft left = world.job_left(number);
    if (!world.is_hostile(number) && left.steps > steps) wait = std::max(wait, left.time);
  }
  return wait;
}

/// How long a switch may wait for the slowest peer, whose first job in gossip may take half a
/// period. 0 if the scenario has no switches.
Duration wait_for_switch(const Simulator& world) {
  const Simulator::Options& options = world.options();
  if (!has_switches(options.scenario)) return {};
  double slowest = 1;
  for (PeerNumber number = 0; number < world.size(); ++number) {
    slowest = std::min(slowest, world.peer(number).speed);
  }
  const auto steps = static_cast<double>(options.node.gossip.period_steps);
  const Duration usual = from_seconds(steps * seconds(options.scenario.step) / slowest);
  // A job of the old mode may take far longer. The other peers then begin the new mode without that
  // peer, and their council notifies it at intervals that grow to a minute.
  const Duration job = wait_for_jobs(world, 0);
  return std::max(usual, job + std::min(job, last_part));
}

/// The time in which each of these peers must make progress. A new settings revision does not
/// interrupt a current job. Such a job may have far more steps than a job with the new settings,
/// and synchronous peers wait for it, so the time begins at the job's end.
Duration time_for_progress(const Simulator& world, const std::vector<PeerNumber>& up,
                           const NodeOptions& node) {
  double slowest = 1;
  for (const PeerNumber number : up) slowest = std::min(slowest, world.peer(number).speed);
  const std::uint64_t steps = operation_steps(node);
  const double period =
      seconds(world.options().scenario.step) / slowest * static_cast<double>(steps);
  return std::max(last_part, from_seconds(last_periods * period)) + wait_for_jobs(world, steps);
}

/// "one mode": after a switch, all peers that train are in one mode, entered by one switch.
std::optional<Violation> check_mode(const Simulator& world, const std::vector<PeerNumber>& up) {
  const SettingsRevision* common = nullptr;
  for (const PeerNumber number : up) {
    if (!trains(world, number)) continue;
    const SwitchableMode& mode = world.peer(number).node->switchable();
    if (common == nullptr) common = &mode.present();
    if (!mode.is_switching() && mode.present() == *common) continue;
    return stuck(world, "one mode",
                 fmt::format("peer-{} is in mode {} by switch {}{}, another in that of switch {}",
                             number, to_string(mode.kind()), mode.present().number,
                             mode.is_switching() ? " and about to leave it" : "", common->number));
  }
  return std::nullopt;
}

/// Calls check_mode() until it succeeds or a switch has had time to end. In a switch, each peer
/// first ends its job. Removes peers that end meanwhile from `up`.
std::optional<Violation> await_one_mode(Simulator& world, std::vector<PeerNumber>& up) {
  std::optional<Violation> unlike = check_mode(world, up);
  const Duration patience = last_part + wait_for_switch(world);
  for (const Time end = world.now() + patience; unlike && world.now() < end;) {
    world.run(world.now() + 1s);
    std::erase_if(up, [&](PeerNumber number) { return world.peer(number).state != PeerState::up; });
    unlike = check_mode(world, up);
  }
  return unlike;
}

/// "one generation": in modes with generations, all training peers are in one generation.
std::optional<Violation> check_generation(const Simulator& world,
                                          const std::vector<PeerNumber>& up) {
  const Generation* common = nullptr;
  for (const PeerNumber number : up) {
    if (!trains(world, number)) continue;
    const Generation* generation = generation_of(*world.peer(number).node);
    if (generation == nullptr) {
      return stuck(world, "one generation", fmt::format("peer-{} is in none", number));
    }
    if (common == nullptr) common = generation;
    if (generation->id == common->id && common->contains(id_of(number))) continue;
    return stuck(world, "one generation", fmt::format("peer-{} is in another than others", number));
  }
  return std::nullopt;
}

/// True if the peer rightly waits for a slower peer that makes progress. If partners are drawn, a
/// fast peer may have no in-neighbour for many rounds and get far ahead. For example, a leaf of a
/// star meets the centre in few rounds. With pairs, the slower peer must be the peer's partner. The
/// slower peer may just have reached the round in which it is awaited.
bool waits_for_slower(const Simulator& world, PeerNumber number, const std::vector<PeerNumber>& up,
                      const std::vector<std::uint64_t>& before) {
  const MixingMode* rounds = world.peer(number).node->as<MixingMode>();
  if (rounds == nullptr) return false;
  const Partners partners = rounds->options().rule.partners;
  if (partners == Partners::neighbours) return false;
  const std::vector<PeerId> partner = rounds->heard();
  return std::ranges::any_of(up, [&](PeerNumber other) {
    const bool is_awaited =
        partners != Partners::pairs || std::ranges::find(partner, id_of(other)) != partner.end();
    return is_awaited && trains(world, other) && achieved(world, other) > before[other] &&
           world.peer(other).node->as<MixingMode>()->step() <= rounds->step();
  });
}

/// True if most peers refuse exchanges with this peer after a switch to gossip. Hostile peers may
/// have spoilt its model in the previous mode, which does not guard models.
bool is_left_alone(const Simulator& world, PeerNumber number, const std::vector<PeerNumber>& up) {
  const bool was_switched = world.peer(number).node->switchable().present().number > 0;
  if (!was_switched || world.options().scenario.saboteurs.ranges.empty()) return false;
  const auto refusing = std::ranges::count_if(up, [&](PeerNumber other) {
    const GossipMode* gossip = world.peer(other).node->as<GossipMode>();
    return gossip != nullptr && gossip->exchange().is_quarantined(world.now(), id_of(number));
  });
  return 2 * static_cast<std::size_t>(refusing) >= up.size();
}

/// True if links lose blocks for good, which real lanes never do. A sum needs all of its blocks, so
/// the common end may then take any time. For example, with 6 % loss, a ring of six loses one of
/// its sixty blocks in nearly every attempt.
bool loses_blocks(const Scenario& scenario) {
  return std::ranges::any_of(scenario.links,
                             [](const LinkRule& link) { return link.quality.loss > 0; });
}

/// An honest peer that is about to end with the common model, or that should do so according to its
/// clock or its judges' verdict. Returns nullopt if there is none.
std::optional<PeerNumber> finishing_peer(const Simulator& world) {
  for (PeerNumber number = 0; number < world.size(); ++number) {
    const VirtualPeer& peer = world.peer(number);
    if (world.is_hostile(number) || peer.state != PeerState::up) continue;
    const Mode& mode = peer.node->mode();
    const SwarmWork* work = mode.swarm_work();
    const bool is_late = mode.phase() == Phase::training && work != nullptr &&
                         (work->is_time_over(world.now()) || work->judges().is_reached());
    if (mode.phase() == Phase::finishing || is_late) return number;
  }
  return std::nullopt;
}

/// Waits until there is no finishing_peer(), because the end may just have begun and steps may take
/// seconds. Returns the peer that is still finishing after a long time, if any.
std::optional<PeerNumber> await_end(Simulator& world) {
  std::optional<PeerNumber> late = finishing_peer(world);
  const Duration patience = heals_within + wait_for_switch(world);
  for (const Time end = world.now() + patience; late && world.now() < end;) {
    world.run(world.now() + 1s);
    late = finishing_peer(world);
  }
  return late;
}

/// "joins": no peer is joining any more. If more than a third of all peers are making a mean, a
/// newcomer without a model rightly waits for it. The wait may take any time over links that lose
/// blocks for good.
std::optional<Violation> check_joined(const Simulator& world, const Scenario& scenario,
                                      const std::vector<PeerNumber>& up) {
  const auto finishing = static_cast<std::size_t>(std::ranges::count_if(up, [&](PeerNumber number) {
    return world.peer(number).node->mode().phase() == Phase::finishing;
  }));
  const bool may_wait = loses_blocks(scenario) && 3 * finishing > up.size();
  for (const PeerNumber number : up) {
    const Mode& mode = world.peer(number).node->mode();
    if (mode.phase() != Phase::joining || (may_wait && mode.step() == 0)) continue;
    return stuck(world, "joins", fmt::format("peer-{} is still joining", number));
  }
  return std::nullopt;
}

/// Returns the first kind of progress that is missing after the heal. Hostile peers need not make
/// progress.
std::optional<Violation> check_liveness(Simulator& world, const Scenario& scenario) {
  std::vector<PeerNumber> up;
  for (PeerNumber number = 0; number < world.size(); ++number) {
    const VirtualPeer& peer = world.peer(number);
    if (world.is_hostile(number) || is_out(world, number)) continue;
    if (peer.state == PeerState::up) up.push_back(number);
  }
  if (auto joining = check_joined(world, scenario, up)) return joining;
  if (!loses_blocks(scenario)) {
    if (const std::optional<PeerNumber> late = await_end(world)) {
      return stuck(world, "the end comes", fmt::format("peer-{} has not ended", *late));
    }
    std::erase_if(up, [&](PeerNumber number) { return world.peer(number).state != PeerState::up; });
  }
  for (const PeerNumber number : up) {
    const View& view = world.peer(number).node->membership().view();
    for (const PeerNumber other : up) {
      if (view.contains(id_of(other))) continue;
      return stuck(world, "views agree",
                   fmt::format("peer-{} does not count peer-{} in", number, other));
    }
    // A hostile peer may just have revived a dead peer with an old statement that it had held back.
    // A leaving peer, which only writes its model to a slow disk, no longer updates its view.
    if (was_hostile_up_lately(world) || world.peer(number).node->is_leaving()) continue;
    for (const PeerId counted : view.peers()) {
      const VirtualPeer& other = world.peer(number_of(counted));
      if (!is_long_gone(world, other)) continue;
      return stuck(world, "views agree",
                   fmt::format("peer-{} counts peer-{} in, which has been gone for {:g} s", number,
                               number_of(counted), seconds(world.now() - other.since)));
    }
  }
  if (auto unlike = await_one_mode(world, up)) return unlike;
  std::vector<std::uint64_t> before(world.size());
  std::vector<SettingsRevision> by(world.size());
  std::size_t training = 0;
  for (const PeerNumber number : up) {
    before[number] = achieved(world, number);
    by[number] = world.peer(number).node->switchable().present();
    training += trains(world, number) ? 1 : 0;
  }
  const NodeOptions node = options_now(world, up);
  const bool lockstep = node.mode != ModeKind::gossip;
  const Duration window = time_for_progress(world, up, node);
  world.run(world.now() + window);
  for (const PeerNumber number : up) {
    if (!trains(world, number) || (training < 2 && !lockstep)) continue;
    // A switch counts as progress, because all peers make a mean for it. In the new mode,
    // achieved() starts at 0.
    const bool has_switched = world.peer(number).node->switchable().present() != by[number];
    if (has_switched || achieved(world, number) > before[number]) continue;
    if (is_left_alone(world, number, up)) continue;
    if (waits_for_slower(world, number, up, before)) continue;
    return stuck(world, lockstep ? "operations go on" : "exchanges go on",
                 fmt::format("peer-{} completes none in {:g} s", number, seconds(window)));
  }
  if (!lockstep) return std::nullopt;
  // A message of the agreement may just have been lost, so wait.
  std::optional<Violation> apart = check_generation(world, up);
  for (const Time end = world.now() + last_part; apart && world.now() < end;) {
    world.run(world.now() + 1s);
    apart = check_generation(world, up);
  }
  return apart;
}

}  // namespace

bool may_wait_for_stage(const Violation& violation) {
  return violation.invariant != "views agree" && violation.invariant != "one mode";
}

Verdict run_world(const DrawnWorld& world, Watcher* watcher) {
  Simulator simulator(simulator_options(world), workloads(world));
  Invariants invariants;
  AllReduceInvariants lockstep;
  PipelineInvariants pipeline;
  MixingInvariants rounds;
  FinaleInvariants finale;
  LedgerInvariants leases;
  TrustInvariants trust;
  const std::vector<Checker*> checkers = {&invariants, &lockstep, &pipeline, &rounds,
                                          &finale,     &leases,   &trust};
  for (Checker* checker : checkers) simulator.watch(*checker);
  if (watcher != nullptr) simulator.watch(*watcher);
  const auto broken = [&] {
    return std::ranges::any_of(checkers,
                               [](const Checker* one) { return one->violation().has_value(); });
  };
  const auto safely = [&](Time until) {
    while (!broken() && !simulator.all_ended() && simulator.counts().events < events_max &&
           simulator.step(until)) {
    }
    if (broken() || simulator.counts().events >= events_max) return false;
    simulator.run(until);
    return true;
  };
  Verdict verdict;
  if (safely(Time(world.scenario.until))) {
    simulator.heal();
    for (const Duration look : {cut_off_within - 6s, Duration(6s)}) {
      if (world.scenario.tickets && safely(simulator.now() + look)) trust.look_for_lag(simulator);
    }
    bool is_revoked = false;
    const auto settle = [&] {
      is_revoked = revoke_hostile_in_step(simulator);
      return safely(simulator.now() + heals_within);
    };
    if (settle() && (is_revoked || !is_in_step(simulator) || settle())) {
      verdict.violation = check_liveness(simulator, world.scenario);
      // A hostile peer's revision may have made the swarm synchronous during these checks.
      if (verdict.violation && !is_revoked && is_in_step(simulator) && settle()) {
        verdict.violation = check_liveness(simulator, world.scenario);
      }
      verdict.stage_lost = verdict.violation && may_wait_for_stage(*verdict.violation) &&
                           pipeline.is_stage_lost(simulator);
      if (verdict.stage_lost) verdict.violation.reset();
      if (!broken()) invariants.check_settled(simulator);
      if (!verdict.violation && world.scenario.tickets && !simulator.all_ended()) {
        trust.check_cut_off(simulator);
        verdict.violation = check_invitations(simulator);
      }
    }
  }
  for (const Checker* checker : checkers) {
    if (checker->violation()) verdict.violation = checker->violation();
  }
  if (!verdict.violation && simulator.counts().events >= events_max) {
    verdict.violation =
        stuck(simulator, "comes to an end", fmt::format("more than {} events", events_max));
  }
  verdict.hostile = simulator.hostile_count();
  verdict.trace_hash = simulator.trace_hash();
  verdict.events = simulator.counts().events;
  verdict.exchanges = invariants.exchanges_matched();
  verdict.halves = invariants.halves();
  verdict.operations = lockstep.operations();
  verdict.runs = pipeline.operations();
  verdict.ended = finale.ended();
  verdict.fault_events = simulator.counts().fault_events;
  return verdict;
}

namespace {

/// Removes from the scenario all peers that a smaller world does not have. If a fault is then left
/// without peers, the world is not legal.
void keep_peers(Scenario& scenario, std::size_t peers) {
  scenario.peers = peers;
  scenario.saboteurs.keep_below(peers);
  drop_missing_peers(scenario, peers);
  for (FaultRule& rule : scenario.faults) {
    rule.peers.keep_below(peers);
    rule.to.keep_below(peers);
  }
}

}  // namespace

DrawnWorld shrink(const DrawnWorld& world, const WorldTest& is_legal, const WorldTest& fails,
                  int tries) {
  DrawnWorld best = world;
  const auto still_fails = [&](const DrawnWorld& candidate) {
    if (tries == 0 || !is_legal(candidate)) return false;
    --tries;
    return fails(candidate);
  };
  const auto attempt = [&](auto change) {
    DrawnWorld candidate = best;
    change(candidate);
    if (!still_fails(candidate)) return false;
    best = candidate;
    return true;
  };
  for (bool smaller = true; smaller && tries > 0;) {
    smaller = false;
    const auto drop_rules = [&](auto member) {
      for (std::size_t i = (best.scenario.*member).size(); i-- > 0;) {
        smaller |= attempt([&](DrawnWorld& w) {
          (w.scenario.*member).erase((w.scenario.*member).begin() + static_cast<std::ptrdiff_t>(i));
        });
      }
    };
    drop_rules(&Scenario::faults);
    drop_rules(&Scenario::links);
    drop_rules(&Scenario::speeds);
    for (std::size_t i = 0; i < best.scenario.faults.size(); ++i) {
      if (best.scenario.faults[i].every == Duration{}) continue;
      smaller |= attempt([&](DrawnWorld& w) { w.scenario.faults[i].every = {}; });
    }
    if (best.scenario.peers > 2) {
      const std::size_t peers = best.scenario.peers;
      smaller |= attempt([&](DrawnWorld& w) { keep_peers(w.scenario, (peers + 1) / 2); }) ||
                 attempt([&](DrawnWorld& w) { keep_peers(w.scenario, peers - 1); });
    }
    if (best.scenario.until > 2s) smaller |= attempt([](DrawnWorld& w) { w.scenario.until /= 2; });
    if (best.scenario.dimension > 1) {
      smaller |=
          attempt([](DrawnWorld& w) { w.scenario.dimension = (w.scenario.dimension + 1) / 2; });
    }
    if (best.scenario.step_jitter > 0) {
      smaller |= attempt([](DrawnWorld& w) { w.scenario.step_jitter = 0; });
    }
  }
  return best;
}

}  // namespace gv
