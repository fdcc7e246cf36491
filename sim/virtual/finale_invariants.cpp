// The checkers for the swarm's budget. Names in quotes are from docs/simulator.md.
#include "sim/virtual/finale_invariants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <utility>
#include <variant>

#include "base/fingerprint.hpp"
#include "peer/modes/swarm_work.hpp"

namespace gv {
namespace {

/// A ballot about the end counts clocks that reach it so soon.
constexpr Duration clocks_apart = std::chrono::seconds(1);
/// Reports are at most about this old.
constexpr double lag_s = 10;

/// The swarm's budget as the peer sees it; null if it has a budget of its own.
const SwarmWork* work_of(const Simulator& world, PeerNumber peer) {
  const auto& node = world.peer(peer).node;
  return node ? node->mode().swarm_work() : nullptr;
}

}  // namespace

void FinaleInvariants::on_job(const Simulator& world, PeerNumber peer, const Job& job) {
  if (work_of(world, peer) == nullptr || world.is_hostile(peer)) return;
  // "nothing after the end": the mean is the last change of a model.
  const bool changes = first_of<task::TakeSteps>(job.tasks) != nullptr ||
                       first_of<task::AddForces>(job.tasks) != nullptr ||
                       first_of<task::AdoptModel>(job.tasks) != nullptr;
  if (changes && peers_[peer].has_mean) {
    fail(world, "nothing after the end",
         fmt::format("peer-{} changes its model after the common mean", peer));
  }
}

void FinaleInvariants::on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) {
  if (work_of(world, peer) == nullptr) return;
  const auto* steps = first_of<task::TakeSteps>(done.job.tasks);
  if (steps != nullptr) trained_ += done.steps_run;
  if (steps != nullptr && steps->from) {
    const std::uint64_t first = *steps->from / work_of(world, peer)->options().batch;
    if (steps_trained_.size() < first + steps->count) steps_trained_.resize(first + steps->count);
    for (std::uint64_t i = 0; i < steps->count; ++i) steps_trained_[first + i] = true;
  }
  const auto* measured = first_of<result::Measured>(done.results);
  if (measured != nullptr && measured->value >= work_of(world, peer)->judges().target()) {
    have_target_.insert(peer);
  }
  if (world.is_hostile(peer)) return;
  const auto* saved = first_of<task::Save>(done.job.tasks);
  if (saved != nullptr && saved->is_common_end) ++ended_;
  const auto* applied = first_of<task::ApplyUpdate>(done.job.tasks);
  const auto* loaded = first_of<task::LoadState>(done.job.tasks);
  const bool is_mean = (applied != nullptr && applied->becomes_model_at) ||
                       (loaded != nullptr && loaded->model_only);
  if (!is_mean) return;
  // "one end": peers with the mean of one version have the same bits. A hostile peer that is the
  // only one to have it can give each newcomer another.
  const ModelVersion& version = done.job.version;
  const std::uint64_t own = fingerprint(world.peer(peer).work->parameters());
  const auto [known, is_new] =
      fingerprints_.try_emplace({version.step, version.samples, version.lineage}, own);
  if (!is_new && known->second != own && world.hostile_count() == 0) {
    fail(world, "one end", fmt::format("peer-{} has another mean than its peers", peer));
  }
  peers_[peer].has_mean = true;
}

void FinaleInvariants::on_effects(const Simulator& world, PeerNumber peer,
                                  const NodeEffects& effects) {
  if (work_of(world, peer) == nullptr || world.is_hostile(peer)) return;
  for (const Fact& fact : effects.facts) {
    if (std::holds_alternative<TrainingBegan>(fact) && !began_) began_ = world.now();
    const bool ends =
        std::holds_alternative<FinaleBegan>(fact) || std::holds_alternative<BudgetDone>(fact);
    if (ends && !std::exchange(is_first_checked_, true)) check_first_end(world, peer);
  }
}

/// "no end before its time": the first peer to end knows that the budget is used up, or the time of
/// the run is over, or more than half of the peers that it knows to train have measured the target.
void FinaleInvariants::check_first_end(const Simulator& world, PeerNumber peer) {
  const SwarmWork& work = *work_of(world, peer);
  const Duration wall = work.options().wall;
  const bool is_time = wall > Duration{} && began_ && world.now() + clocks_apart >= *began_ + wall;
  // If more than a third of the clocks are wrong, so is the time.
  const bool are_clocks_sound =
      std::ranges::none_of(world.options().scenario.faults, [](const FaultRule& rule) {
        return rule.kind == FaultKind::clock_jump || rule.kind == FaultKind::clock_rate;
      });
  const Judges& judges = work.judges();
  const bool is_target = judges.is_on() && 2 * have_target_.size() > judges.voters();
  if (work.is_used_up() || is_time || is_target || world.hostile_count() > 0 || !are_clocks_sound)
    return;
  fail(world, "no end before its time",
       fmt::format("peer-{} ends after {} of {} samples", peer, work.counted(),
                   work.options().budget));
}

void FinaleInvariants::on_state(const Simulator&, PeerNumber peer, PeerState state) {
  // A restarted peer goes on from its disk.
  if (state == PeerState::down || state == PeerState::ended) peers_.erase(peer);
}

void FinaleInvariants::after(const Simulator& world, PeerNumber peer) {
  const SwarmWork* known = work_of(world, peer);
  if (known == nullptr || world.is_hostile(peer)) return;
  const SwarmWork& work = *known;
  PeerRecord& mine = peers_[peer];
  // "factors are bounded".
  const double factor = work.factor();
  if (!(factor > 0 && factor <= work.options().weigh_max)) {
    fail(world, "factors are bounded", fmt::format("peer-{} has factor {}", peer, factor));
  }
  // Peers that agree on their version count by it, and that may fall.
  if (work.is_agreed()) return;
  if (work.ledger() != nullptr) check_ledger(world, peer, *work.ledger());
  // "counts never fall".
  if (work.counted() < mine.counted) {
    fail(world, "counts never fall",
         fmt::format("peer-{} counts {} samples after {}", peer, work.counted(), mine.counted));
  }
  mine.counted = work.counted();
  // "no sample from nowhere": no peer counts more than all have trained, but for reports that were
  // under way when it took over a total.
  fastest_ = std::max(fastest_, work.pace());
  const std::uint64_t trained = trained_ * work.options().batch;
  const double most = static_cast<double>(trained) + lag_s * fastest_;
  if (world.hostile_count() == 0 && static_cast<double>(work.counted()) > most) {
    fail(world, "no sample from nowhere",
         fmt::format("peer-{} counts {} samples; {} were trained, at {:.0f} a second at most", peer,
                     work.counted(), trained, fastest_));
  }
}

/// "nothing untrained is whole": what a peer holds to be done was trained by a peer.
void FinaleInvariants::check_ledger(const Simulator& world, PeerNumber peer, const Ledger& ledger) {
  const std::uint64_t whole = ledger.whole();
  if (world.hostile_count() > 0) return;
  for (; whole_ < whole; ++whole_) {
    const std::uint64_t begin = whole_ * ledger.options().steps;
    const std::uint64_t end =
        begin + (whole_ + 1 == ledger.options().chunks ? ledger.options().last_steps
                                                       : ledger.options().steps);
    for (std::uint64_t step = begin; step < end; ++step) {
      if (step < steps_trained_.size() && steps_trained_[step]) continue;
      fail(world, "nothing untrained is whole",
           fmt::format("peer-{} holds chunk {} for done, of which nobody trained step {}", peer,
                       whole_, step));
      return;
    }
  }
}

}  // namespace gv
