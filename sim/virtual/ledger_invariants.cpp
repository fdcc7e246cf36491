// The checkers for leased data. Names in quotes are from docs/simulator.md.
#include "sim/virtual/ledger_invariants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <limits>
#include <variant>

#include "base/canonical.hpp"
#include "peer/modes/swarm_work.hpp"
#include "peer/modes/switchable_mode.hpp"

namespace gv {
namespace {

/// The largest number of bytes of a report about chunks.
constexpr std::size_t entry_bytes_max = 64 + 40 * 8;
/// Within this time, a peer learns what all members of its view know. `learns_of_each_within` is
/// added for each member.
constexpr Duration learns_within = std::chrono::seconds(30);
constexpr Duration learns_of_each_within = std::chrono::seconds(2);
/// In a quiet world, a peer may repeat this number of chunks, plus those that it trains in a
/// second: at the start, before all peers know each other, and by helping at the end.
constexpr double again_max = 3;
/// Chunks that take fewer seconds than this are trained before other peers learn that they are
/// taken.
constexpr double chunk_s_min = 0.2;
/// If paces differ by more than this factor, peers help each other.
constexpr double paces_apart = 1.3;

/// The peer's ledger; null if the peer is hostile, is not running or has no ledger.
const Ledger* ledger_of(const Simulator& world, PeerNumber peer) {
  const auto& node = world.peer(peer).node;
  if (!node || world.is_hostile(peer)) return nullptr;
  const SwarmWork* work = node->mode().swarm_work();
  return work != nullptr ? work->ledger() : nullptr;
}

/// The job's steps on leased data; null if there are none.
const task::TakeSteps* leased_steps_of(const Job& job) {
  const auto* steps = first_of<task::TakeSteps>(job.tasks);
  return steps != nullptr && steps->from ? steps : nullptr;
}

std::uint64_t batch_of(const Simulator& world, PeerNumber peer) {
  return world.peer(peer).node->mode().swarm_work()->options().batch;
}

std::uint64_t all_steps(const Ledger::Options& all) {
  return (all.chunks - 1) * all.steps + all.last_steps;
}

/// True if every message arrives, and peers at most die, leave, join or become slow.
bool is_connected(const Simulator& world) {
  const auto keeps_links = [](const FaultRule& rule) {
    return rule.kind == FaultKind::kill || rule.kind == FaultKind::restart ||
           rule.kind == FaultKind::leave || rule.kind == FaultKind::join ||
           rule.kind == FaultKind::slow_cpu;
  };
  return std::ranges::all_of(world.options().scenario.faults, keeps_links) &&
         world.hostile_count() == 0 && has_sound_links(world) && may_all_meet(world);
}

/// Mean number of chunks that a peer may repeat in a world without faults and with similar paces;
/// nullopt in all other worlds.
std::optional<double> again_allowed(const Simulator& world, const Ledger& ledger) {
  const Scenario& scenario = world.options().scenario;
  if (!scenario.faults.empty() || world.hostile_count() > 0 || !has_sound_links(world) ||
      !may_all_meet(world)) {
    return {};
  }
  double slowest = std::numeric_limits<double>::max();
  double fastest = 0;
  for (PeerNumber number = 0; number < world.size(); ++number) {
    slowest = std::min(slowest, world.peer(number).speed);
    fastest = std::max(fastest, world.peer(number).speed);
  }
  const double chunk_s =
      seconds(scenario.step) * static_cast<double>(ledger.options().steps) / fastest;
  if (fastest > paces_apart * slowest || chunk_s < chunk_s_min) return {};
  return again_max + 1 / chunk_s;
}

/// The number of chunks, from the first on, that all other members of the peer's view know to be
/// done. Nullopt if one of these members does not train.
std::optional<std::uint64_t> known_to_others(const Simulator& world, PeerNumber peer) {
  std::optional<std::uint64_t> least;
  for (const PeerId id : world.peer(peer).node->membership().view().peers()) {
    const PeerNumber other = number_of(id);
    if (other == peer) continue;
    const Ledger* ledger = other < world.size() ? ledger_of(world, other) : nullptr;
    if (ledger == nullptr || world.peer(other).state != PeerState::up ||
        world.peer(other).node->mode().phase() != Phase::training) {
      return std::nullopt;
    }
    least = std::min(least.value_or(ledger->whole()), ledger->whole());
  }
  return least;
}

}  // namespace

bool has_sound_links(const Simulator& world) {
  const Duration timeout = world.options().node.membership.probe_timeout;
  return std::ranges::all_of(world.options().scenario.links, [timeout](const LinkRule& link) {
    const LinkQuality& quality = link.quality;
    return quality.loss + quality.corrupt + quality.reorder + quality.bandwidth <= 0 &&
           4 * (quality.latency + quality.jitter) <= timeout;
  });
}

bool may_all_meet(const Simulator& world) {
  const std::size_t neighbours = world.options().scenario.neighbours;
  return neighbours == 0 || neighbours >= world.size();
}

void LedgerInvariants::on_effects(const Simulator& world, PeerNumber peer,
                                  const NodeEffects& effects) {
  if (ledger_of(world, peer) == nullptr) return;
  for (const Job& job : effects.jobs) check_job(world, peer, job);
  const LedgerEntry* last = nullptr;
  for (const Outgoing& out : effects.messages) {
    const auto* ping = std::get_if<Ping>(&out.message);
    const auto* ack = std::get_if<Ack>(&out.message);
    if (ack != nullptr && ack->about != id_of(peer)) continue;  // Relayed for another peer.
    if (ping == nullptr && ack == nullptr) continue;
    const Progress& progress = ping != nullptr ? ping->progress : ack->progress;
    if (!progress.work || !progress.work->ledger) continue;
    const LedgerEntry& entry = *progress.work->ledger;
    // Most messages of one call contain the same report.
    if (last != nullptr && *last == entry) continue;
    last = &entry;
    check_entry(world, peer, entry);
  }
}

/// "reports of chunks are true": reports are short, and a peer reports a chunk as done only if it
/// has trained the chunk from the first step to the last, in this process or an earlier one.
void LedgerInvariants::check_entry(const Simulator& world, PeerNumber peer,
                                   const LedgerEntry& entry) {
  const std::size_t bytes = canonical_bytes("", entry).size();
  const std::string problem = entry.problem();
  if (bytes > entry_bytes_max || !problem.empty()) {
    fail(world, "reports of chunks are true",
         fmt::format("peer-{} reports chunks in {} bytes {}", peer, bytes, problem));
  }
  ChunkSet& told = told_by_[peer];
  const ChunkSet& trained = trained_by_[peer];
  for (const ChunkRange& range : entry.done) {
    for (std::uint64_t at = told.first_missing(range.begin); at < range.end();
         at = told.first_missing(at + 1)) {
      if (trained.contains(at)) continue;
      fail(world, "reports of chunks are true",
           fmt::format("peer-{} reports chunk {} as done, which it has not trained", peer, at));
      return;
    }
    told.add(range.begin, range.end());
  }
}

/// "no work beyond the budget": steps on leased data belong to a chunk that exists.
void LedgerInvariants::check_job(const Simulator& world, PeerNumber peer, const Job& job) {
  const task::TakeSteps* steps = leased_steps_of(job);
  if (steps == nullptr) return;
  const Ledger::Options& all = ledger_of(world, peer)->options();
  const std::uint64_t first = *steps->from / batch_of(world, peer);
  if (first + steps->count > all_steps(all)) {
    fail(world, "no work beyond the budget",
         fmt::format("peer-{} takes {} steps from step {} of {}", peer, steps->count, first,
                     all_steps(all)));
  }
  if (first % all.steps == 0 && is_connected(world)) check_news(world, peer, first / all.steps);
}

/// "known work is not repeated": a peer does not begin a chunk if all members of its view have
/// known for a long time that the chunk is done.
void LedgerInvariants::check_news(const Simulator& world, PeerNumber peer, std::uint64_t chunk) {
  Life& mine = lives_[peer];
  const auto known = known_to_others(world, peer);
  if (!known) {
    mine.known_at.reset();
    mine.long_known = 0;
    return;
  }
  const Duration patience =
      learns_within + static_cast<Duration::rep>(world.size()) * learns_of_each_within;
  if (mine.known_at && world.now() >= *mine.known_at + patience) {
    mine.long_known = mine.known;
    mine.known_at.reset();
  }
  if (!mine.known_at) {
    mine.known = *known;
    mine.known_at = world.now();
  }
  if (chunk >= mine.long_known) return;
  fail(world, "known work is not repeated",
       fmt::format("peer-{} begins chunk {}; the others have known for long that all chunks below "
                   "{} are done",
                   peer, chunk, mine.long_known));
}

void LedgerInvariants::on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) {
  const Ledger* ledger = ledger_of(world, peer);
  const task::TakeSteps* steps = leased_steps_of(done.job);
  if (ledger == nullptr || steps == nullptr) return;
  const Ledger::Options& all = ledger->options();
  const std::uint64_t first = *steps->from / batch_of(world, peer);
  const std::uint64_t made_to = first + done.steps_run;
  // A restarted peer continues the chunk that its checkpoint contains in part.
  ChunkSet& made = steps_by_[peer];
  made.add(first, made_to);
  const std::uint64_t chunk = first / all.steps;
  const std::uint64_t begin = chunk * all.steps;
  const std::uint64_t end = begin + (chunk + 1 == all.chunks ? all.last_steps : all.steps);
  if (made_to < end || made.first_missing(begin) < end) return;
  ++lives_[peer].trained;
  note_chunk(world, peer, *ledger, chunk);
}

/// "once in quiet": without faults and with similar paces, few chunks are trained again.
void LedgerInvariants::note_chunk(const Simulator& world, PeerNumber peer, const Ledger& ledger,
                                  std::uint64_t chunk) {
  trained_by_[peer].add(chunk, chunk + 1);
  if (!trained_.contains(chunk)) {
    trained_.add(chunk, chunk + 1);
    return;
  }
  ++again_;
  const auto allowed = again_allowed(world, ledger);
  if (!allowed || static_cast<double>(again_) <= *allowed * static_cast<double>(world.size())) {
    return;
  }
  fail(world, "once in quiet",
       fmt::format("{} chunks were trained again, the last by peer-{}", again_, peer));
}

void LedgerInvariants::on_state(const Simulator&, PeerNumber peer, PeerState state) {
  if (state == PeerState::down || state == PeerState::ended) lives_.erase(peer);
}

/// "figures add up": a peer counts no more chunks as trained than it has trained, and no more as
/// repeated or lost than as trained. Without hostile peers, no peer counts more chunks as done than
/// all peers have trained.
void LedgerInvariants::after(const Simulator& world, PeerNumber peer) {
  const Ledger* ledger = ledger_of(world, peer);
  if (ledger == nullptr) return;
  const Ledger::Counts& counts = ledger->counts();
  if (counts.trained > 0 && counts.trained > lives_[peer].trained) {
    fail(world, "figures add up",
         fmt::format("peer-{} counts {} chunks as trained and has trained {}", peer, counts.trained,
                     lives_[peer].trained));
  }
  if (counts.repeated + counts.lost > counts.trained) {
    fail(world, "figures add up",
         fmt::format("peer-{} counts {} chunks as repeated and {} as lost, of {}", peer,
                     counts.repeated, counts.lost, counts.trained));
  }
  const std::uint64_t trained = trained_.count(0, ledger->options().chunks);
  if (world.hostile_count() == 0 && ledger->done() > trained) {
    fail(world, "figures add up",
         fmt::format("peer-{} counts {} chunks as done where {} were trained", peer, ledger->done(),
                     trained));
  }
}

}  // namespace gv
