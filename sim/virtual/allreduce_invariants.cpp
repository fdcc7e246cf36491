// The checkers for mode `allreduce`. Names in quotes are from docs/simulator.md.
#include "sim/virtual/allreduce_invariants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/fingerprint.hpp"
#include "base/magnitude.hpp"
#include "peer/modes/allreduce.hpp"
#include "peer/modes/switchable_mode.hpp"

namespace gv {
namespace {

/// Number of newest gradients kept for each peer. One would be enough if no peer were ever stopped.
constexpr std::size_t gradients_kept = 16;
/// Because of a hostile peer, the values in a complete sum may reach four times a gradient's limit.
constexpr float sum_max = 4 * largest_gradient;

}  // namespace

AllReduceInvariants::PeerRecord& AllReduceInvariants::record(PeerNumber peer) {
  if (records_.size() <= peer) records_.resize(peer + 1);
  return records_[peer];
}

AllReduceInvariants::Sample AllReduceInvariants::sample(const Simulator& world,
                                                        std::span<const float> values) {
  const std::size_t elements = world.options().node.course.elements;
  Sample some{};
  for (std::size_t i = 0; i < some.size(); ++i) some[i] = values[i * elements / some.size()];
  return some;
}

/// True if more than a third of the peers began the generation with its version, and an honest peer
/// has ended the run with that version.
bool AllReduceInvariants::has_ended_with_it(const Generation& generation) const {
  const std::size_t holders = holders_of(generation, {}).size();
  return ended_.contains(generation.version.lineage) && 3 * holders > generation.order.size();
}

/// True if the peer is in mode `allreduce` and not about to change to another one.
bool AllReduceInvariants::is_in_lockstep(const Simulator& world, PeerNumber peer) {
  const Node& node = *world.peer(peer).node;
  return node.as<AllReduceMode>() != nullptr && !node.switchable().is_switching();
}

void AllReduceInvariants::on_effects(const Simulator& world, PeerNumber peer,
                                     const NodeEffects& effects) {
  if (world.peer(peer).node->as<AllReduceMode>() == nullptr || world.is_hostile(peer)) return;
  PeerRecord& mine = record(peer);
  for (const Outgoing& outgoing : effects.messages) {
    const auto* confirm = std::get_if<Promise>(&outgoing.message);
    if (confirm == nullptr || confirm->ballot.number >= first_ballot_of_meetings) continue;
    // "stands still": a peer that answered a ballot does not move on before the ballot is decided.
    // If a hostile peer has raised a peer's ballot number far above all others, the number may fall
    // again.
    const bool lifted =
        world.hostile_count() > 0 &&
        mine.answered.number > confirm->ballot.number + Agreement::numbers_ahead_max;
    const bool older = confirm->ballot < mine.answered && !lifted;
    const bool moved = confirm->ballot == mine.answered && confirm->answer.version != mine.version;
    if (older || moved) {
      fail(world, "stands still",
           fmt::format("peer-{} answers {}", peer, older ? "an older ballot" : "twice unlike"));
    }
    mine.answered = confirm->ballot;
  }
  for (const Fact& fact : effects.facts) {
    // "equal versions are equal bits": no peer finds that its model differs from another peer's.
    const auto* differ = std::get_if<ModelsDiffer>(&fact);
    if (differ != nullptr && !world.hostile_count()) {
      fail(world, "equal versions are equal bits",
           fmt::format("peer-{} finds that models differ", peer));
    }
    // A peer whose model differs from the others' replaces its version by one that ranks below any
    // other.
    if (differ != nullptr && differ->peer == id_of(peer)) mine.seen = false;
    // "sums whole": no peer refuses a sum after its own check.
    const auto* refused = std::get_if<SumRefused>(&fact);
    if (refused != nullptr && !world.hostile_count()) {
      fail(world, "sums whole", fmt::format("peer-{} refuses a sum: {}", peer, refused->why));
    }
  }
}

void AllReduceInvariants::on_job(const Simulator& world, PeerNumber peer, const Job& job) {
  if (!is_in_lockstep(world, peer)) return;
  PeerRecord& mine = record(peer);
  mine.job_version = job.version;
  const auto* update = first_of<task::ApplyUpdate>(job.tasks);
  if (update != nullptr && world.hostile_count() == 0) check_sum(world, peer, *update->values);
  if (update != nullptr && !world.is_hostile(peer)) check_bound(world, peer, *update);
  const auto* gradient = first_of<task::ComputeGradient>(job.tasks);
  mine.gradient = gradient != nullptr ? gradient->values : nullptr;
}

/// "sums bounded": however large a hostile peer's values are, no honest peer applies a sum that is
/// far larger than a gradient may be.
void AllReduceInvariants::check_bound(const Simulator& world, PeerNumber peer,
                                      const task::ApplyUpdate& update) {
  if (!update.plan.parts.empty()) return;  // Gathered values are bounded when they are decoded.
  const auto sum = std::span<const float>(*update.values).first(update.plan.elements);
  const float largest = largest_magnitude(sum);
  if (largest <= sum_max) return;
  fail(world, "sums bounded",
       fmt::format("peer-{} applies a sum with the value {:g}", peer, largest));
}

/// "sums whole": the applied sum is the mean of the gradients of all peers in the generation, each
/// computed on the model from which the collective started. A lossy codec changes values at each
/// hop, so its sums are not compared.
void AllReduceInvariants::check_sum(const Simulator& world, PeerNumber peer,
                                    std::span<const float> sum) {
  if (world.options().node.allreduce.compression.codec != Codec::identity) return;
  const auto parent = parents_.find(record(peer).job_version.lineage);
  if (parent == parents_.end()) {
    fail(world, "sums whole", fmt::format("peer-{} applies what no peer has finished", peer));
    return;
  }
  const Generation& generation = generations_.at(parent->second.generation);
  std::array<double, Sample{}.size()> mean{};
  std::array<double, Sample{}.size()> size{};
  double samples = 0;
  for (const std::uint32_t share : generation.shares) samples += share;
  for (std::size_t i = 0; i < generation.order.size(); ++i) {
    const auto& known = record(number_of(generation.order[i])).gradients;
    const auto its =
        std::ranges::find(known, parent->second.lineage, &std::pair<std::uint64_t, Sample>::first);
    if (its == known.end()) return;  // The peer applies the sum late, after a long stop.
    for (std::size_t k = 0; k < mean.size(); ++k) {
      const double part = generation.shares[i] / samples * static_cast<double>(its->second[k]);
      mean[k] += part;
      size[k] += std::abs(part);
    }
  }
  ++sums_;
  const Sample applied = sample(world, sum);
  for (std::size_t k = 0; k < mean.size(); ++k) {
    if (std::abs(static_cast<double>(applied[k]) - mean[k]) <= 1e-5 * size[k]) continue;
    fail(world, "sums whole",
         fmt::format("peer-{} applies {:.9g} where the mean of {} gradients is {:.9g}", peer,
                     applied[k], generation.order.size(), mean[k]));
    return;
  }
}

void AllReduceInvariants::on_job_done(const Simulator& world, PeerNumber peer,
                                      const JobDone& done) {
  if (!is_in_lockstep(world, peer) || world.is_hostile(peer)) return;
  PeerRecord& mine = record(peer);
  if (first_of<result::StateRefused>(done.results) != nullptr) {
    mine.refuses = true;
    mine.gradient.reset();  // No gradient was computed, and the model is still the previous one.
    return;
  }
  const Replica& work = *world.peer(peer).work;
  // "equal versions are equal bits": two models of one lineage never differ.
  const ModelVersion& version = mine.job_version;
  if (done.step != version.step) {
    fail(world, "equal versions are equal bits",
         fmt::format("peer-{} has made {} steps and stands at {}", peer, done.step, version.step));
  }
  const std::uint64_t hash = fingerprint(work.parameters());
  // A hostile peer can send different values to each honest peer. The sums do not reveal this. The
  // peers find out later, when they compare fingerprints.
  const bool compares = !world.hostile_count();
  if (compares && models_.try_emplace(version.lineage, hash).first->second != hash) {
    fail(world, "equal versions are equal bits",
         fmt::format("peer-{}'s model after operation {} is not that of others", peer,
                     version.step));
  }
  if (!mine.gradient) return;
  mine.gradients.emplace(mine.gradients.begin(), version.lineage, sample(world, *mine.gradient));
  if (mine.gradients.size() > gradients_kept) mine.gradients.pop_back();
  mine.gradient.reset();
}

void AllReduceInvariants::on_state(const Simulator&, PeerNumber peer, PeerState state) {
  if (state != PeerState::down && state != PeerState::ended) return;
  forget(peer);
}

/// Begins a new record. Keeps the newest gradients, because other peers' sums may include them.
void AllReduceInvariants::forget(PeerNumber peer) {
  auto gradients = std::move(record(peer).gradients);
  record(peer) = PeerRecord{.gradients = std::move(gradients)};
}

/// Call when the peer has entered another generation.
void AllReduceInvariants::check_generation(const Simulator& world, PeerNumber peer,
                                           const Generation& generation) {
  PeerRecord& mine = record(peer);
  // "one generation of a name": all peers know the same generation under one name. A hostile
  // proposer may use one name for different generations, so its generations are not compared
  // between peers.
  if (world.is_hostile(number_of(generation.id.proposer))) generations_.erase(generation.key());
  const Generation& known = generations_.try_emplace(generation.key(), generation).first->second;
  const bool same =
      known.id == generation.id && known.order == generation.order &&
      known.sources == generation.sources && known.shares == generation.shares &&
      known.version == generation.version && known.algorithm == generation.algorithm &&
      known.slowest_from == generation.slowest_from && known.slowest == generation.slowest;
  if (!same || !generation.contains(id_of(peer))) {
    fail(world, "one generation of a name",
         fmt::format("peer-{} is in another generation of the same name than others", peer));
  }
  if (mine.left.contains(generation.key())) {
    fail(world, "one generation of a name",
         fmt::format("peer-{} begins a generation again that was over", peer));
  }
}

void AllReduceInvariants::after(const Simulator& world, PeerNumber peer) {
  const VirtualPeer& acted = world.peer(peer);
  if (!acted.node || world.is_hostile(peer)) return;
  if (!is_in_lockstep(world, peer)) {
    forget(peer);
    return;
  }
  if (const auto number = acted.node->switchable().present().number;
      std::exchange(record(peer).switches, number) != number) {
    forget(peer);
    record(peer).switches = number;
  }
  const Agreement& agreement = acted.node->as<AllReduceMode>()->generations()->agreement();
  PeerRecord& mine = record(peer);
  const Generation* generation = agreement.generation();
  const std::uint64_t key = generation != nullptr ? generation->key() : 0;
  if (generation != nullptr && generation->id < mine.answered) {
    fail(world, "stands still",
         fmt::format("peer-{} works in a generation although it answered a later ballot", peer));
  }
  // A finished collective belongs to the peer's former generation, or to the new one if the
  // collective was finished as soon as that generation began.
  const std::uint64_t was_in = mine.generation;
  if (key != mine.generation) {
    if (mine.generation != 0) mine.left.insert(mine.generation);
    mine.generation = key;
    if (generation != nullptr) check_generation(world, peer, *generation);
  }
  const ModelVersion version = agreement.version();
  const ModelVersion before = std::exchange(mine.version, version);
  if (acted.node->mode().course().phase() == Phase::done) ended_.insert(version.lineage);
  if (!std::exchange(mine.seen, true) || version == before) return;
  if (std::exchange(mine.refuses, false) && version == mine.replaced) return;
  const bool at_once = was_in == 0 || version.lineage == after_operation(before, key, 0).lineage;
  const std::uint64_t worked_in = at_once ? key : was_in;
  if (worked_in == 0) {
    fail(world, "stands still",
         fmt::format("peer-{} moves from operation {} to {} in no generation", peer, before.step,
                     version.step));
    return;
  }
  const Generation& in = generations_.at(worked_in);
  if (version == in.version) {  // The peer has downloaded the state of its generation.
    mine.replaced = before;
    if (version.samples < before.samples && !has_ended_with_it(in)) {
      fail(
          world, "one result of an operation",
          fmt::format("peer-{} gives up {} samples for {}", peer, before.samples, version.samples));
    }
    return;
  }
  // "one result of an operation": all peers get the same version from one collective.
  const NodeOptions& node = world.options().node;
  const std::uint64_t end = world.peer(peer).node->mode().course().steps();
  const std::uint64_t steps = node.allreduce.local.steps_at(before.step, end);
  if (version.step != before.step + steps || version.samples <= before.samples) {
    fail(world, "one result of an operation",
         fmt::format("peer-{} goes from operation {} to {}", peer, before.step, version.step));
  }
  const bool is_common = !world.is_hostile(number_of(in.id.proposer));
  const auto result = results_.try_emplace({worked_in, version.step}, version).first->second;
  if (is_common && result != version) {
    fail(world, "one result of an operation",
         fmt::format("peer-{} finishes operation {} unlike others in its generation", peer,
                     before.step));
  }
  parents_.try_emplace(version.lineage, Parent{before.lineage, worked_in});
}

}  // namespace gv
