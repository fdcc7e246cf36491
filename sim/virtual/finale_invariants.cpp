// The checkers for the swarm's budget. Names in quotes are from docs/simulator.md.
#include "sim/virtual/finale_invariants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <variant>

#include "base/fingerprint.hpp"
#include "base/magnitude.hpp"
#include "peer/modes/finale.hpp"
#include "peer/modes/replica_planner.hpp"
#include "peer/modes/switchable_mode.hpp"
#include "sim/virtual/ledger_invariants.hpp"

namespace gv {
namespace {

/// How long peers may continue to train after the budget is used up, not counting a round of
/// probes. They learn of each other's work up to about ten seconds late, and may miss ten seconds'
/// work from before they met.
constexpr Duration overshoots_for = std::chrono::seconds(20);
/// A ballot to end the run also counts clocks that are short of the end by up to this time.
constexpr Duration clocks_apart = std::chrono::seconds(1);
/// The approximate largest age of a report, in seconds.
constexpr double lag_s = 10;
/// With leased data, a peer that has idled for `idle_max_s` plus the time of two chunks takes any
/// chunk. It looks again when its own last chunks are done, at most ten seconds after it trained
/// them.
constexpr double idle_max_s = 3;
constexpr double idle_slack_s = 15;
/// An idle peer helps a peer whose own chunks will take longer than `helps_for_s` plus the time in
/// which the idle peer trains two chunks. It begins to help within a second; the check allows
/// `helps_within`.
constexpr double helps_for_s = 1;
constexpr Duration helps_within = std::chrono::seconds(3);
/// All other peers know a peer's pace once the peer itself has known it for this long.
constexpr Duration pace_known_after = std::chrono::seconds(15);
/// An idle peer looks for chunks at least this often, unless it is stopped.
constexpr Duration looks_every = std::chrono::milliseconds(100);

/// The peer's view of the swarm's budget; null if the peer has a budget of its own.
const SwarmWork* work_of(const Simulator& world, PeerNumber peer) {
  const auto& node = world.peer(peer).node;
  return node ? node->mode().swarm_work() : nullptr;
}

bool has_faulty_clocks(const Simulator& world) {
  return std::ranges::any_of(world.options().scenario.faults, [](const FaultRule& rule) {
    return rule.kind == FaultKind::clock_jump || rule.kind == FaultKind::clock_rate;
  });
}

/// True if no peer, link or message ever does anything unusual, except that peers may become slow.
bool is_quiet(const Simulator& world) {
  const Scenario& scenario = world.options().scenario;
  const auto is_slow = [](const FaultRule& rule) { return rule.kind == FaultKind::slow_cpu; };
  return std::ranges::all_of(scenario.faults, is_slow) && world.hostile_count() == 0 &&
         std::ranges::none_of(scenario.links, [](const LinkRule& link) {
           return link.quality.loss > 0 || link.quality.corrupt > 0;
         });
}

}  // namespace

void FinaleInvariants::on_job(const Simulator& world, PeerNumber peer, const Job& job) {
  const SwarmWork* work = work_of(world, peer);
  if (work == nullptr || world.is_hostile(peer)) return;
  peers_[peer].agreed = work->is_agreed() ? std::optional(work->counted()) : std::nullopt;
  // "nothing after the end": a peer's model does not change after it becomes the mean.
  const bool changes = first_of<task::TakeSteps>(job.tasks) != nullptr ||
                       first_of<task::AddForces>(job.tasks) != nullptr ||
                       first_of<task::AdoptModel>(job.tasks) != nullptr;
  const auto* brings = first_of<task::ComputeGradient>(job.tasks);
  if (brings != nullptr && brings->of_model) {
    peers_[peer].norm = norm_of(world.peer(peer).work->parameters());
  }
  if (changes && peers_[peer].has_mean) {
    fail(world, "nothing after the end",
         fmt::format("peer-{} changes its model after the common mean", peer));
  }
}

void FinaleInvariants::on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) {
  if (work_of(world, peer) == nullptr) return;
  const auto* steps = first_of<task::TakeSteps>(done.job.tasks);
  const std::uint64_t batch = work_of(world, peer)->options().batch;
  const auto* gradient = first_of<task::ComputeGradient>(done.job.tasks);
  // The first peer to end a round counts it for all peers, so do not count the others' steps of
  // that round again.
  const bool is_counted = peers_[peer].agreed.value_or(agreed_) < agreed_;
  if (!is_counted) {
    if (steps != nullptr) trained_ += done.steps_run * batch_growth(done.job) * batch;
    if (gradient != nullptr && !gradient->of_model) trained_ += gradient->all_samples();
  }
  if (!used_up_ && trained_ >= work_of(world, peer)->options().budget) used_up_ = world.now();
  if (steps != nullptr && steps->from) {
    const std::uint64_t first = *steps->from / batch;
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
  // A mean that precedes a switch is not the mean at the end of the run.
  if (!is_mean || world.peer(peer).node->switchable().is_switching()) return;
  // "one end": means of one version have the same bits. A hostile peer that alone has the mean
  // could give each newcomer a different mean.
  const ModelVersion& version = done.job.version;
  const std::uint64_t own = fingerprint(world.peer(peer).work->parameters());
  const auto [known, is_new] =
      fingerprints_.try_emplace({version.step, version.samples, version.lineage}, own);
  if (!is_new && known->second != own && world.hostile_count() == 0) {
    fail(world, "one end", fmt::format("peer-{} has another mean than its peers", peer));
  }
  const bool is_sum = applied != nullptr && applied->becomes_model_at;
  if (is_sum && !peers_[peer].has_mean) check_mean(world, peer);
  peers_[peer].has_mean = true;
}

/// "the mean is of usual length": models with a norm far above the usual one are refused. The cap
/// of a block is at least that of a vector of norm 1, and there are at most as many blocks as
/// elements.
void FinaleInvariants::check_mean(const Simulator& world, PeerNumber peer) {
  const auto& node = world.options().node;
  const double cap =
      node.mode == ModeKind::gossip ? node.gossip.mean.norm_cap : node.mixing.mean.norm_cap;
  const auto mean = world.peer(peer).work->parameters();
  const double most = cap * (peers_[peer].norm + std::sqrt(static_cast<double>(mean.size())));
  if (cap > 0 && peers_[peer].is_guarded && norm_of(mean) > most) {
    fail(world, "the mean is of usual length",
         fmt::format("peer-{} ends with a norm of {:.3g}; its own was {:.3g}", peer, norm_of(mean),
                     peers_[peer].norm));
  }
}

void FinaleInvariants::on_effects(const Simulator& world, PeerNumber peer,
                                  const NodeEffects& effects) {
  if (work_of(world, peer) == nullptr || world.is_hostile(peer)) return;
  // A new mode has not yet measured how fast the other peers are, so its progress may be less than
  // that of the previous mode.
  const std::uint64_t switches = world.peer(peer).node->switchable().present().number;
  if (std::exchange(peers_[peer].switches, switches) != switches) {
    peers_[peer].progress = 0;
  }
  for (const Job& job : effects.jobs) {
    const auto* follows = first_of<task::FollowSwarm>(job.tasks);
    if (follows != nullptr) check_schedule(world, peer, *work_of(world, peer), follows->progress);
    check_overshoot(world, peer, *work_of(world, peer), job);
  }
  for (const Fact& fact : effects.facts) {
    const auto* generation = std::get_if<GenerationBegan>(&fact);
    if (generation != nullptr && generation->ballot >= first_ballot_of_mean) {
      // Two hostile peers together can prevent `direct` sums, in which each block comes from one
      // peer.
      peers_[peer].is_guarded = !world.is_hostile(number_of(generation->peer)) &&
                                world.hostile_count() == 1 && world.size() <= direct_max;
    }
    if (std::holds_alternative<TrainingBegan>(fact) && !began_) began_ = world.now();
    const bool ends =
        std::holds_alternative<FinaleBegan>(fact) || std::holds_alternative<BudgetDone>(fact);
    if (ends && !std::exchange(is_first_checked_, true)) check_first_end(world, peer);
  }
}

/// "the schedule follows the work": the progress that determines the learning rate is at least the
/// part of the budget that the peer knows to be used, and exactly that part if peers agree. This
/// progress never falls, unless peers agree on less.
void FinaleInvariants::check_schedule(const Simulator& world, PeerNumber peer,
                                      const SwarmWork& work, double progress) {
  constexpr double tolerance = 1e-9;
  const Ledger* ledger = work.ledger();
  const double known =
      ledger != nullptr
          ? static_cast<double>(ledger->done()) / static_cast<double>(ledger->options().chunks)
          : std::min(1.0, static_cast<double>(work.counted()) /
                              static_cast<double>(work.options().budget));
  double& before = peers_[peer].progress;
  const double least = work.is_agreed() ? known : std::max(before, known);
  const double most = work.is_agreed() ? known : 1;
  if (progress + tolerance < least || progress > most + tolerance) {
    fail(world, "the schedule follows the work",
         fmt::format("peer-{} trains at progress {} of {} to {}", peer, progress, least, most));
  }
  before = work.is_agreed() ? 0 : progress;
}

/// "no work beyond the budget": if slow peers are the only faults, no peer begins further steps
/// long after the peers have used up the budget. With leased data, LedgerInvariants checks every
/// step instead.
void FinaleInvariants::check_overshoot(const Simulator& world, PeerNumber peer,
                                       const SwarmWork& work, const Job& job) {
  if (!used_up_ || work.ledger() != nullptr || work.is_agreed() || !is_quiet(world) ||
      !has_sound_links(world) || !may_all_meet(world)) {
    return;
  }
  const auto* steps = first_of<task::TakeSteps>(job.tasks);
  const NodeOptions& node = world.options().node;
  // trained_ includes steps of a resting centre, which are not part of the budget.
  const bool has_rests = node.gossip.centre_rests || node.mixing.rule.centre_rests;
  if (steps == nullptr || has_rests) return;
  const Duration probes = static_cast<Duration::rep>(world.size()) * node.membership.probe_period;
  if (world.now() <= *used_up_ + overshoots_for + probes) return;
  fail(world, "no work beyond the budget",
       fmt::format("peer-{} begins steps {:.1f} s after the budget was used up", peer,
                   seconds(world.now() - *used_up_)));
}

/// "no end before its time": when the first peer ends, it knows that the budget is used up, or the
/// run's time is over, or more than a third of the training peers that it knows have at some time
/// measured the target. (More than half had when they voted, but others may have joined since.)
void FinaleInvariants::check_first_end(const Simulator& world, PeerNumber peer) {
  const SwarmWork& work = *work_of(world, peer);
  const Duration wall = work.options().wall;
  const bool is_time = wall > Duration{} && began_ && world.now() + clocks_apart >= *began_ + wall;
  // If more than a third of the clocks are wrong, the agreed time is wrong, too.
  const bool are_clocks_sound = !has_faulty_clocks(world);
  const Judges& judges = work.judges();
  const bool is_target = judges.is_on() && 3 * have_target_.size() > judges.voters();
  if (work.is_used_up() || is_time || is_target || world.hostile_count() > 0 || !are_clocks_sound)
    return;
  fail(world, "no end before its time",
       fmt::format("peer-{} ends after {} of {} samples", peer, work.counted(),
                   work.options().budget));
}

void FinaleInvariants::on_state(const Simulator&, PeerNumber peer, PeerState state) {
  // A restarted peer begins with the state on its disk.
  if (state == PeerState::down || state == PeerState::ended) peers_.erase(peer);
}

void FinaleInvariants::after(const Simulator& world, PeerNumber peer) {
  const SwarmWork* known = work_of(world, peer);
  if (known == nullptr || world.is_hostile(peer)) return;
  const SwarmWork& work = *known;
  PeerRecord& mine = peers_[peer];
  // "factors are bounded": a peer's factor is above 0 and at most `weigh_max`.
  const double factor = work.factor();
  if (!(factor > 0 && factor <= work.options().weigh_max)) {
    fail(world, "factors are bounded", fmt::format("peer-{} has factor {}", peer, factor));
  }
  // Peers that agree on their version count the version's samples, which may lower their counts.
  if (work.is_agreed()) {
    mine.counted = work.counted();
    agreed_ = std::max(agreed_, mine.counted);
    if (mine.counted > trained_) ahead_ = std::max(ahead_, mine.counted - trained_);
    return;
  }
  if (work.ledger() != nullptr) {
    check_ledger(world, peer, *work.ledger());
    check_idleness(world, peer, work);
  }
  // "counts never fall": a peer never counts fewer samples than before.
  if (work.counted() < mine.counted) {
    fail(world, "counts never fall",
         fmt::format("peer-{} counts {} samples after {}", peer, work.counted(), mine.counted));
  }
  mine.counted = work.counted();
  // "no sample from nowhere": no peer counts more samples than all peers have trained on. There are
  // two exceptions: samples in reports that were under way when a peer took over an agreed count,
  // and rounds that synchronous peers agreed on but did not finish.
  fastest_ = std::max(fastest_, work.pace());
  const double most = static_cast<double>(trained_ + ahead_) + lag_s * fastest_;
  if (world.hostile_count() == 0 && static_cast<double>(work.counted()) > most) {
    fail(world, "no sample from nowhere",
         fmt::format("peer-{} counts {} samples; {} were trained, at {:.0f} a second at most", peer,
                     work.counted(), trained_, fastest_));
  }
}

/// True if some peer has taken chunks that it will not begin for a long time, and no peer is
/// helping. `chunk_s` is the time that peer `idle`, which could help, takes for a chunk.
bool FinaleInvariants::needs_help(const Simulator& world, PeerNumber idle, double chunk_s) const {
  const View& view = world.peer(idle).node->membership().view();
  bool needs = false;
  for (PeerNumber number = 0; number < world.size(); ++number) {
    const SwarmWork* work = work_of(world, number);
    if (number == idle || work == nullptr || work->ledger() == nullptr) continue;
    const LedgerEntry entry = work->ledger()->entry();
    if (std::ranges::any_of(entry.leases, &Lease::helps)) return false;
    const double pace = work->chunks_per_second();
    const auto known = peers_.find(number);
    const bool is_paced = known != peers_.end() && known->second.paced &&
                          world.now() >= *known->second.paced + pace_known_after;
    const bool trains = world.peer(number).node->mode().phase() == Phase::training;
    if (!trains || !is_paced || !view.contains(id_of(number))) continue;
    // Allow twice the time after which the helper acts, because it knows the other's pace only
    // roughly.
    const double most_s = 2 * (helps_for_s + 2 * chunk_s) + 5;
    needs |= static_cast<double>(work->ledger()->ahead()) / pace > most_s;
  }
  return needs;
}

/// "nobody idles for long": until all chunks are done, a peer always finds some to train on. "help
/// comes": if nothing unusual happens, a peer soon gets help with chunks that it will not begin for
/// a long time.
void FinaleInvariants::check_idleness(const Simulator& world, PeerNumber peer,
                                      const SwarmWork& work) {
  PeerRecord& mine = peers_[peer];
  if (!mine.paced && work.chunks_per_second() > 0) mine.paced = world.now();
  const Duration passed =
      std::min(world.now() - std::exchange(mine.looked, world.now()), looks_every);
  const Mode& mode = world.peer(peer).node->mode();
  const bool is_idle = work.ledger()->is_idle() && !work.ledger()->is_complete() &&
                       mode.phase() == Phase::training && !mode.course().is_leaving();
  if (!is_idle || has_faulty_clocks(world)) {
    mine.idle = mine.unhelpful = {};
    return;
  }
  if (mode.course().jobs_under_way() > 0) return;  // The peer is adding a force or saving.
  mine.idle += passed;
  const double pace = work.chunks_per_second();
  const double chunk_s = pace > 0 ? 1 / pace : 0;
  if (seconds(mine.idle) > idle_max_s + 2 * chunk_s + idle_slack_s) {
    fail(world, "nobody idles for long",
         fmt::format("peer-{} has found no chunk for {:.1f} s", peer, seconds(mine.idle)));
  }
  const bool is_needed = pace > 0 && is_quiet(world) && needs_help(world, peer, chunk_s);
  mine.unhelpful = is_needed ? mine.unhelpful + passed : Duration{};
  if (mine.unhelpful > helps_within) {
    fail(world, "help comes",
         fmt::format("peer-{} has not helped for {:.1f} s", peer, seconds(mine.unhelpful)));
  }
}

/// "nothing untrained is whole": if a peer considers a chunk done, some peer has trained it.
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
           fmt::format("peer-{} counts chunk {} as done, of which nobody trained step {}", peer,
                       whole_, step));
      return;
    }
  }
}

}  // namespace gv
