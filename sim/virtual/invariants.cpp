// The checkers. Names in quotes are from docs/simulator.md.
#include "sim/virtual/invariants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "base/comparison.hpp"
#include "base/magnitude.hpp"
#include "base/overloaded.hpp"
#include "peer/modes/gossip.hpp"
#include "peer/modes/mixing.hpp"
#include "peer/modes/pipeline.hpp"
#include "peer/modes/switchable_mode.hpp"
#include "sim/virtual/trace.hpp"

namespace gv {
namespace {

/// Declarations of death are excused for this long after a fault. This is the longest time of
/// suspicion in drawn swarms, including the delay of probes by bad local health.
constexpr Duration death_excused_for = std::chrono::seconds(90);
/// Probe periods that one probe takes with the worst local health, which is 8.
constexpr int slowest_probe_periods = 9;
/// A proposer must be excluded within this time after it told two peers different things.
constexpr Duration exclusion_max = std::chrono::seconds(30);
/// After this time, an exchange has repeated all its questions and is settled.
constexpr Duration settled_after = std::chrono::seconds(60);
/// A download is adopted within this time after its witnesses have answered.
constexpr Duration adopted_after = std::chrono::seconds(5);
/// The largest number of forces that may wait for a job. Fewer exchanges than this commit while one
/// job runs.
constexpr std::uint64_t forces_waiting_max = 1000;
/// The largest number of transfers that may wait on a lane. A real lane drops further ones.
constexpr std::size_t transfers_max = 16;
/// The largest number of pieces of sums that may wait on a lane.
constexpr std::size_t pieces_max = 4096;
/// The largest size, in bytes, of the contribution checksum that is sent with a stage's sum.
constexpr std::size_t riders_max = 4096;

/// Ranks states of one incarnation k: alive(k) < suspect(k) < dead(k), left(k) < alive(k + 1).
int rank(MemberState state) { return static_cast<int>(state); }

/// Returns the step of a replica after the task, if it was at `step` before.
std::uint64_t step_after(const Job::Task& task, std::uint64_t step) {
  return std::visit(Overloaded{
                        [](const task::AdoptModel& adopt) { return adopt.model.step; },
                        [](const task::LoadState& load) { return load.step; },
                        [](const task::EnterGeneration& enter) { return enter.place.step; },
                        [](const task::MoveTo& move) { return move.step; },
                        [&](const task::ApplyUpdate& update) {
                          if (update.becomes_model_at) return *update.becomes_model_at;
                          return step + std::max<std::uint64_t>(1, update.local_steps);
                        },
                        [&](const task::TakeSteps& steps) { return step + steps.count; },
                        [&](const task::EndRun&) { return step + 1; },
                        [&](const auto&) { return step; },
                    },
                    task);
}

bool within(const std::optional<Time>& at, Time now, Duration window) {
  return at && now - *at <= window;
}

}  // namespace

Duration time_for_other_silent_peers(const Simulator& world) {
  int silent = 0;
  for (PeerNumber peer = 0; peer < world.size(); ++peer) {
    const PeerState state = world.peer(peer).state;
    if (state != PeerState::up && state != PeerState::absent) ++silent;
  }
  return std::max(0, silent - 1) * slowest_probe_periods *
         world.options().node.membership.probe_period;
}

Invariants::PeerRecord& Invariants::record(PeerNumber peer) {
  if (records_.size() <= peer) records_.resize(peer + 1);
  return records_[peer];
}

void Invariants::on_input(const Simulator&, const Input& input) {
  ticked_ = input.kind == Input::Kind::tick;
}

// Hostile peers are not checked: their nodes work correctly, but a saboteur replaces the nodes'
// messages. Checks of an exchange need two honest peers, because no peer can prevent another from
// lying about its own half.

void Invariants::on_effects(const Simulator& world, PeerNumber peer, const NodeEffects& effects) {
  if (world.is_hostile(peer)) return;
  // "bounded": no call asks for more than a few messages and transfers for each peer.
  std::size_t most = 4 * world.size() + 64;
  const AllReduceOptions& allreduce = world.options().node.allreduce;
  if (world.options().node.mode == ModeKind::allreduce || has_switches(world.options().scenario)) {
    // A peer that sums, now or after a switch, may also send all pieces of several vectors at once.
    const std::size_t elements = world.options().node.course.elements;
    most += 8 * (elements / allreduce.segment_elements +
                 world.size() * (elements / allreduce.bucket_elements + 1));
  }
  // In a pipeline, amounts depend on the generation, so PipelineInvariants checks them.
  const bool is_pipeline = world.options().node.mode == ModeKind::pipeline;
  const std::size_t amount = std::max(effects.messages.size(), effects.transfers.size());
  if ((!is_pipeline && amount > most) || effects.jobs.size() > (is_pipeline ? 2 : 1)) {
    fail(world, "bounded",
         fmt::format("peer-{} wants {} messages, {} transfers and {} jobs at once", peer,
                     effects.messages.size(), effects.transfers.size(), effects.jobs.size()));
  }
  // "own offers": only the owner of an exchange can offer it.
  for (const Outgoing& outgoing : effects.messages) {
    const auto* accept = std::get_if<Accept>(&outgoing.message);
    if (accept == nullptr || accept->id.owner == outgoing.to) continue;
    fail(world, "own offers",
         fmt::format("peer-{} accepts an offer that peer-{} made in another's name", peer,
                     number_of(outgoing.to)));
  }
  // "readable": neighbours with the same rule understand each other's messages.
  if (const VirtualPeer& acted = world.peer(peer);
      acted.node && acted.node->as<MixingMode>() != nullptr) {
    // Messages of hostile peers need not be readable.
    const std::uint64_t refused = acted.node->as<MixingMode>()->counts().messages_refused;
    if (refused > 0 && world.hostile_count() == 0) {
      fail(world, "readable", fmt::format("peer-{} could not read {} messages", peer, refused));
    }
    if (!acted.node->switchable().stands_still()) check_revision(world, peer, *acted.node);
  }
  transferred_ = !effects.transfers.empty();
  for (const Outgoing& sent : effects.messages) {  // A repeated answer adds nothing.
    const auto* word = std::get_if<Commit>(&sent.message);
    if (word != nullptr) decided_.try_emplace(word->id, world.now());
  }
  for (const Fact& fact : effects.facts) {
    if (std::holds_alternative<ExchangeUndecided>(fact)) record(peer).undecided_at = world.now();
    const auto* liar = std::get_if<EquivocationProved>(&fact);
    if (liar != nullptr && !world.is_hostile(number_of(liar->peer))) {
      fail(world, "equivocation",
           fmt::format("peer-{} takes it for proved that peer-{} equivocates", peer,
                       number_of(liar->peer)));
    }
    const auto* dead = std::get_if<MemberDead>(&fact);
    if (dead == nullptr) continue;
    const PeerNumber target = number_of(dead->peer);
    if (!excuses_death(world, peer, target)) {
      fail(world, "no false death",
           fmt::format("peer-{} declares peer-{} dead, which was up and reachable all along", peer,
                       target));
    }
  }
}

/// "one rule": all peers of a generation use one settings revision.
void Invariants::check_revision(const Simulator& world, PeerNumber peer, const Node& node) {
  const Generation* generation = node.generations()->agreement().generation();
  // A hostile proposer may propose different generations under one name.
  if (generation == nullptr || world.is_hostile(number_of(generation->id.proposer))) return;
  const SettingsRevision& agreed =
      revisions_.try_emplace(generation->key(), generation->revision).first->second;
  if (agreed == generation->revision && node.as<MixingMode>()->options().revision == agreed) return;
  fail(world, "one rule",
       fmt::format("peer-{} goes by settings revision {} where all agreed on {}", peer,
                   node.as<MixingMode>()->options().revision.number, agreed.number));
}

/// "equivocation": if a hostile proposer leads honest peers into different generations of one name,
/// all of them exclude it within half a minute.
void Invariants::check_decisions(const Simulator& world, PeerNumber peer) {
  const Agreement& agreement = world.peer(peer).node->generations()->agreement();
  const Time now = world.now();
  if (const Generation* generation = agreement.generation()) {
    const PeerNumber proposer = number_of(generation->id.proposer);
    const Generation& known =
        generations_.try_emplace(generation->key(), *generation).first->second;
    if (world.is_hostile(proposer) && known != *generation) equivocated_.try_emplace(proposer, now);
  }
  if (equivocated_.empty() || !link_faults_.empty() ||
      within(links_disturbed_at_, now, exclusion_max) ||
      within(record(peer).disturbed_at, now, exclusion_max) ||
      world.peer(peer).node->is_leaving()) {
    return;
  }
  // A restarted peer can learn of the exclusion only from a peer that knows of it.
  const auto can_tell = [&](PeerNumber other, PeerNumber proposer) {
    const VirtualPeer& there = world.peer(other);
    return other != peer && !world.is_hostile(other) && there.state == PeerState::up &&
           !within(record(other).disturbed_at, now, exclusion_max) &&
           there.node->generations() != nullptr &&
           there.node->generations()->agreement().is_convicted(id_of(proposer));
  };
  for (const auto& [proposer, since] : equivocated_) {
    if (now - since <= exclusion_max || agreement.is_excluded(id_of(proposer))) continue;
    bool can_know = !record(peer).disturbed_at || *record(peer).disturbed_at < since;
    for (PeerNumber other = 0; other < world.size(); ++other) {
      can_know = can_know || can_tell(other, proposer);
    }
    if (!can_know) continue;
    fail(world, "equivocation",
         fmt::format("peer-{} does not exclude peer-{}, which got two peers into different "
                     "generations of one name {:.0f} s ago",
                     peer, proposer, seconds(now - since)));
  }
}

bool Invariants::excuses_death(const Simulator& world, PeerNumber observer,
                               PeerNumber target) const {
  const Time now = world.now();
  if (world.peer(target).state != PeerState::up || world.is_hostile(target)) return true;
  // One peer's certificate may not have reached the other peer yet, or may have become invalid
  // there.
  if (world.options().scenario.tickets) return true;
  if (!link_faults_.empty() || within(links_disturbed_at_, now, death_excused_for)) return true;
  for (const PeerNumber peer : {observer, target}) {
    if (peer < records_.size() && within(records_[peer].disturbed_at, now, death_excused_for)) {
      return true;
    }
  }
  for (const auto& [a, b] : {std::pair(observer, target), std::pair(target, observer)}) {
    const LinkQuality quality = world.options().scenario.link(a, b);
    const Duration timeout = world.options().node.membership.probe_timeout;
    // The link itself is faulty.
    if (quality.loss + quality.corrupt > 0 || quality.reorder > 0 ||
        4 * (quality.latency + quality.jitter) > timeout || quality.bandwidth > 0) {
      return true;
    }
  }
  return false;
}

void Invariants::check_force(const Simulator& world, PeerNumber peer, const Force& force) {
  const auto name = [&] {
    return fmt::format("exchange {}/{} at peer-{}", number_of(force.exchange.owner),
                       force.exchange.number, peer);
  };
  // "applied once": a peer applies each exchange once. But a hostile peer may reuse an exchange's
  // name, or end an exchange on its own side only.
  const bool with_honest = !world.is_hostile(number_of(force.partner));
  if (with_honest && !applied_.insert({force.exchange, peer}).second) {
    fail(world, "applied once", name() + " is applied again");
    return;
  }
  // "finite": a force moves the model by a finite distance.
  double squares = 0;
  for (const float value : *force.values) squares += static_cast<double>(value) * value;
  const double moved = std::abs(force.scale) * std::sqrt(squares);
  if (!std::isfinite(moved)) fail(world, "finite", name() + " adds what is not a number");
  // "clip bound": with a fixed clip radius, no exchange moves a model further than alpha times that
  // radius. After a switch, the radius may differ from the config's.
  const PairExchange::Options& options = world.options().node.gossip.exchange;
  const bool has_own_mode = world.peer(peer).node->switchable().present().number == 0;
  if (options.clip_radius > 0 && has_own_mode) {
    const double most = world.options().node.gossip.alpha * options.clip_radius;
    if (moved > most * (1 + 1e-5)) {
      fail(world, "clip bound",
           fmt::format("{} moves it by {:.6g}, {:.6g} at most", name(), moved, most));
    }
  }
  if (!with_honest) return;
  const auto other = halves_.find(force.exchange);
  if (other == halves_.end()) {
    const Time decided = decided_.try_emplace(force.exchange, world.now()).first->second;
    halves_[force.exchange] = {peer, number_of(force.partner), world.now(), decided, force};
    return;
  }
  // "mean preserved": one side adds what the other side subtracts, bit for bit.
  const Half& half = other->second;
  bool opposite = half.partner == peer && number_of(force.partner) == half.peer &&
                  half.force.scale == force.scale &&
                  half.force.values->size() == force.values->size();
  for (std::size_t i = 0; opposite && i < force.checksum.size(); ++i) {
    opposite = half.force.checksum[i] == -force.checksum[i];
  }
  for (std::size_t i = 0; opposite && i < force.values->size(); ++i) {
    opposite = (*half.force.values)[i] == -(*force.values)[i];
  }
  if (!opposite) {
    fail(world, "mean preserved", name() + " does not cancel what its partner added");
  }
  ++matched_;
  halves_.erase(other);
}

/// "no stranger's model": if a newcomer knows an honest peer with a model, a single hostile peer
/// cannot give the newcomer an invented model. The bound is ModelReview's with some tolerance,
/// because sketches are up to a third off, and models change in the meantime. Checks nothing if a
/// peer was just killed or restarted, because a witness's model and exchanges are then unknown.
void Invariants::check_adopted(const Simulator& world, PeerNumber peer,
                               const DownloadedModel& model) {
  const GossipMode* gossip = world.peer(peer).node->as<GossipMode>();
  if (gossip == nullptr || gossip->population().is_on() || world.hostile_count() != 1) return;
  for (PeerNumber other = 0; other < world.size(); ++other) {
    const Time since = world.peer(other).since;
    if (other != peer && since > Time{} && world.now() - since < adopted_after) return;
  }
  std::vector<std::span<const float>> others;
  double apart = 0;
  const Membership& members = world.peer(peer).node->membership();
  for (const PeerId id : members.view().peers()) {
    const VirtualPeer& other = world.peer(number_of(id));
    if (number_of(id) == peer || world.is_hostile(number_of(id)) || !other.node) continue;
    if (other.node->as<GossipMode>() == nullptr) continue;
    const PairExchange& exchange = other.node->as<GossipMode>()->exchange();
    // Several newcomers may begin to train at one moment. None of them is a witness before then.
    const bool is_known = members.find(id)->progress.phase != Phase::joining;
    if (!is_known || !exchange.snapshot() || exchange.snapshot()->step == 0) continue;
    others.emplace_back(exchange.snapshot()->values);
    apart = std::max(apart, exchange.spread());
  }
  std::vector<float> difference(model.values.size());
  const auto compared = [&](std::span<const float> a, std::span<const float> b) {
    Comparison comparison;
    comparison.add(a, b, difference);
    return comparison;
  };
  double nearest = std::numeric_limits<double>::infinity();
  double longest = 0;
  for (const auto& one : others) {
    const Comparison with_model = compared(one, model.values);
    nearest = std::min(nearest, with_model.distance());
    longest = std::max(longest, with_model.their_norm());
    for (const auto& other : others) apart = std::max(apart, compared(one, other).distance());
  }
  const double most = std::max(10 * apart, longest);
  if (!others.empty() && nearest > most) {
    fail(world, "no stranger's model",
         fmt::format("peer-{} adopts a model {:g} away from all others, {:g} at most", peer,
                     nearest, most));
  }
}

void Invariants::on_job(const Simulator& world, PeerNumber peer, const Job& job) {
  if (world.is_hostile(peer)) return;
  PeerRecord& mine = record(peer);
  const Replica& work = *world.peer(peer).work;
  mine.checksum_wanted = work.checksum();
  mine.step_wanted = work.step();
  for (const Job::Task& task : job.tasks) {
    mine.step_wanted = step_after(task, mine.step_wanted);
  }
  if (const auto* adopts = first_of<task::AdoptModel>(job.tasks)) {
    mine.adopted_at = world.now();
    check_adopted(world, peer, adopts->model);
  }
  const auto* adds = first_of<task::AddForces>(job.tasks);
  if (adds == nullptr) return;
  mine.forces += adds->forces.size();
  for (const Force& force : adds->forces) {
    check_force(world, peer, force);
    for (std::size_t i = 0; i < mine.checksum_wanted.size(); ++i) {
      mine.checksum_wanted[i] += force.checksum[i];
    }
  }
}

void Invariants::on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) {
  if (world.is_hostile(peer)) return;
  PeerRecord& mine = record(peer);
  mine.done_at = world.now();
  const Replica& work = *world.peer(peer).work;
  if (work.checksum() != mine.checksum_wanted) {
    fail(world, "mean preserved",
         fmt::format("peer-{}'s conservation checksum is not what its forces make", peer));
  }
  // "no work lost": the replica made all steps of the job. If it refuses a state, which only a
  // hostile peer can cause, it skips the rest of the job.
  const bool refuses = first_of<result::StateRefused>(done.results) != nullptr;
  const bool counted = work.step() == done.step &&
                       (refuses ? world.hostile_count() > 0 : done.step == mine.step_wanted);
  if (!counted) {
    fail(world, "no work lost",
         fmt::format("peer-{} is at step {} instead of {}", peer, work.step(), mine.step_wanted));
  }
  // "no work lost" again: every committed force was applied, was dropped with its model, or still
  // waits for a job.
  if (const GossipMode* gossip = world.peer(peer).node->as<GossipMode>()) {
    const std::uint64_t committed = gossip->exchange().counts().committed;
    if (committed > mine.forces + gossip->counts().forces_dropped + forces_waiting_max) {
      fail(world, "no work lost",
           fmt::format("peer-{} has committed {} exchanges and applied {}", peer, committed,
                       mine.forces));
    }
  }
  const auto* taken = first_of<task::TakeSnapshot>(done.job.tasks);
  const bool is_from_others = first_of<task::MixRound>(done.job.tasks) != nullptr ||
                              first_of<task::LoadState>(done.job.tasks) != nullptr;
  if ((taken != nullptr && !is_finite(taken->snapshot->values)) ||
      (is_from_others && !is_finite(work.parameters()))) {
    fail(world, "finite", fmt::format("peer-{}'s model is not finite", peer));
  }
}

void Invariants::on_fault_event(const Simulator& world, const FaultEvent& fault_event) {
  const FaultRule& rule = fault_event.rule;
  if (rule.kind == FaultKind::heal) {
    link_faults_.clear();
  } else if (is_of_links(rule.kind)) {
    links_disturbed_at_ = world.now();
    if (fault_event.begins) {
      link_faults_.insert(fault_event.fault);
    } else {
      link_faults_.erase(fault_event.fault);
    }
  }
  if (is_of_links(rule.kind)) return;
  for (PeerNumber peer = 0; peer < world.size(); ++peer) {
    if (rule.peers.contains(peer)) record(peer).disturbed_at = world.now();
  }
}

void Invariants::on_state(const Simulator& world, PeerNumber peer, PeerState state) {
  PeerRecord& mine = record(peer);
  mine.disturbed_at = world.now();
  gone_.erase(peer);
  if (state == PeerState::down || state == PeerState::ended) {
    gone_[peer] = world.now();
    mine.versions.clear();
    mine.forces = 0;
  }
}

void Invariants::on_save(const Simulator&, PeerNumber peer, std::uint64_t step, bool whole) {
  (whole ? record(peer).committed_step : record(peer).writing_step) = step;
}

void Invariants::on_restore(const Simulator& world, PeerNumber peer, const Image* image) {
  PeerRecord& mine = record(peer);
  // "checkpoint": a loaded checkpoint is the last complete one, or the one that the crash
  // interrupted.
  const bool nothing = !image && !mine.committed_step;
  const bool newest = image && mine.committed_step && image->step == *mine.committed_step;
  const bool torn_off = image && mine.writing_step && image->step == *mine.writing_step;
  if (!nothing && !newest && !torn_off) {
    fail(world, "checkpoint",
         fmt::format("peer-{} comes back with step {} instead of {}", peer, image ? image->step : 0,
                     mine.committed_step.value_or(0)));
  }
  if (torn_off) mine.committed_step = image->step;
  mine.writing_step.reset();
}

void Invariants::check_bounds(const Simulator& world, PeerNumber peer) {
  // "bounded": a peer's memory may grow with the swarm, but not with time.
  const Node& node = *world.peer(peer).node;
  const std::size_t n = world.size();
  const auto at_most = [&](std::size_t held, std::size_t most, const char* where) {
    if (held <= most) return;
    fail(world, "bounded",
         fmt::format("peer-{} holds {} things in {}, {} at most", peer, held, where, most));
  };
  at_most(node.membership().view().size(), n, "its view");
  at_most(node.membership().held(), 13 * (n - 1) + 65, "the tables of its membership");
  if (const GossipMode* gossip = node.as<GossipMode>()) {
    at_most(gossip->held(), GossipMode::held_max(n - 1), "the memories of its exchanges");
  }
  if (const MixingMode* mixing = node.as<MixingMode>()) {
    at_most(mixing->held(), 4 * n * RoundInbox::messages_max, "the messages of its rounds");
  }
  if (const PipelineMode* pipeline = node.as<PipelineMode>()) {
    // Blocks of later sums: at most those that all peers could send, doubled because links may
    // duplicate them.
    std::size_t bytes = 0;
    for (const StageSize& stage : pipeline->options().stages) {
      bytes += 4 * stage.parameters + riders_max;
      for (const GroupSum& sum : stage.forward_sums) bytes += 4 * sum.most();
      for (const GroupSum& sum : stage.backward_sums) bytes += 4 * sum.most();
    }
    // A hostile peer may repeat blocks. The pipeline's limit for each sender is even higher, but no
    // virtual peer sends that much.
    const std::size_t most = world.hostile_count() > 0 ? 2 * pipeline_held_max : 2 * n * bytes;
    at_most(pipeline->held_bytes(), most, "bytes of sums to come");
  }
  if (transferred_) {
    // If only the newest message of a neighbour is needed, older ones do not pile up.
    const MixingMode* rounds = node.as<MixingMode>();
    const bool few = node.as<GossipMode>() != nullptr ||
                     (rounds != nullptr && traits_of(rounds->options().rule).newest_suffices);
    at_most(world.longest_lane(peer), few ? transfers_max : pieces_max, "a lane");
  }
}

void Invariants::check_ghosts(const Simulator& world, PeerNumber peer) {
  // "no ghost": only allowed peers are members.
  const View& view = world.peer(peer).node->membership().view();
  PeerRecord& mine = record(peer);
  if (view.hash() != std::exchange(mine.view_hash, view.hash())) {
    for (const PeerId member : view.peers()) {
      mine.entered.try_emplace(number_of(member), world.now());
      if (member == id_of(peer) || std::ranges::binary_search(world.allowed(peer), member))
        continue;
      fail(world, "no ghost",
           fmt::format("peer-{} counts {} in, which is not on its list", peer, to_string(member)));
    }
    std::erase_if(mine.entered,
                  [&](const auto& entry) { return !view.contains(id_of(entry.first)); });
  }
  // A missing peer is declared dead in time, unless a fault hid its absence. A hostile peer may
  // hold back an old statement of the missing peer, and revive that peer with it. The missing peer
  // is then declared dead again.
  for (const auto& [gone, gone_since] : gone_) {
    const Time now = world.now();
    const auto entered = mine.entered.find(gone);
    const Time since = world.hostile_count() > 0 && entered != mine.entered.end()
                           ? std::max(gone_since, entered->second)
                           : gone_since;
    if (!view.contains(id_of(gone))) continue;
    const Duration found_within = death_excused_for + time_for_other_silent_peers(world);
    if (now - since <= found_within) continue;
    if (!link_faults_.empty() || within(links_disturbed_at_, now, found_within)) continue;
    if (within(mine.disturbed_at, now, found_within)) continue;
    fail(world, "no ghost",
         fmt::format("peer-{} counts peer-{} in, which is gone since {:.3f} s", peer, gone,
                     seconds(since.time_since_epoch())));
  }
}

void Invariants::check_members(const Simulator& world, PeerNumber peer) {
  // Both lists are in the order of peers, so one pass over both is enough.
  std::map<PeerNumber, ModelVersion>& versions = record(peer).versions;
  auto known = versions.begin();
  const PeerId last = id_of(static_cast<PeerNumber>(world.size() - 1));
  world.peer(peer).node->membership().for_each_other([&](const Member& member) {
    if (member.id < id_of(0) || member.id > last) return;
    const PeerNumber other = number_of(member.id);
    while (known != versions.end() && known->first < other) known = versions.erase(known);
    // "never backwards": a view never replaces a member's state by an older one.
    const ModelVersion now{member.incarnation, rank(member.state)};
    if (known == versions.end() || known->first != other) {
      versions.emplace_hint(known, other, now);
      return;
    }
    const ModelVersion before = std::exchange(known++->second, now);
    const bool backwards = now.incarnation < before.incarnation ||
                           (now.incarnation == before.incarnation && now.rank < before.rank);
    if (backwards) {
      fail(world, "never backwards",
           fmt::format("peer-{} takes peer-{} back from {}/{} to {}/{}", peer, other,
                       before.incarnation, before.rank, now.incarnation, now.rank));
    }
  });
  versions.erase(known, versions.end());
}

void Invariants::after(const Simulator& world, PeerNumber peer) {
  if (!link_faults_.empty()) links_disturbed_at_ = world.now();
  const VirtualPeer& acted = world.peer(peer);
  if (!acted.node || world.is_hostile(peer)) return;
  // "no exit": no peer gives up because of a message from another peer.
  if (acted.node->mode().course().has_failed()) {
    fail(world, "no exit", fmt::format("peer-{} cannot go on", peer));
  }
  // "timers advance": after a tick, the deadline is later. Otherwise a host would loop without
  // pause.
  if (ticked_ && acted.node->deadline() <= world.local(peer)) {
    const Time now = world.local(peer);
    fail(world, "timers advance",
         fmt::format("peer-{} wants another tick at once, for {}{}{}", peer,
                     acted.node->membership().deadline() <= now ? "membership " : "",
                     acted.node->mode().deadline() <= now ? "the mode " : "",
                     acted.node->as<GossipMode>() != nullptr &&
                             acted.node->as<GossipMode>()->exchange().deadline() <= now
                         ? "exchange"
                         : ""));
  }
  if (acted.node->generations() != nullptr) check_decisions(world, peer);
  check_bounds(world, peer);
  check_ghosts(world, peer);
  check_members(world, peer);
}

void Invariants::check_settled(const Simulator& world) {
  // "half exchanges known": if only one side applied an exchange, the other must have had a reason.
  for (const auto& [id, half] : halves_) {
    if (world.now() - half.at < settled_after) continue;
    const PeerRecord& partner = record(half.partner);
    // A slow disk may delay this side's force for minutes, so look for the other side's reason from
    // the time of the decision on.
    const Time earliest = half.decided - settled_after;
    const auto since = [earliest](const std::optional<Time>& at) { return at && *at >= earliest; };
    // The other side's force may still wait for its current job, which may save to a slow disk.
    const bool waits = !partner.done_at || *partner.done_at < half.at;
    // A peer that replaces its model drops the forces that it committed earlier, but none committed
    // later.
    const bool gave_up = partner.adopted_at && *partner.adopted_at >= half.decided;
    if (waits || gave_up || since(partner.disturbed_at) || since(partner.undecided_at) ||
        since(record(half.peer).disturbed_at)) {
      ++halves_excused_;
      continue;
    }
    fail(world, "half exchanges known",
         fmt::format("exchange {}/{} was applied by peer-{} at {:.3f} s and never by peer-{}",
                     number_of(id.owner), id.number, half.peer, seconds(half.at.time_since_epoch()),
                     half.partner));
  }
}

}  // namespace gv
