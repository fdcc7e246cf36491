// The checkers for pipelines. Names in quotes are from docs/simulator.md.
#include "sim/virtual/pipeline_invariants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <iterator>

#include "base/fingerprint.hpp"
#include "peer/modes/pipeline.hpp"
#include "peer/modes/stage_states.hpp"

namespace gv {
namespace {

/// True if all replicas of a stage have the same bits, because they apply the same sum.
bool are_bits_equal(const PipelineOptions& pipeline) {
  return pipeline.consensus == StageConsensus::allreduce && is_synchronous(pipeline.kind);
}

/// True if the stages only take time. Every gradient is then 1 for each micro-batch in it.
bool is_idle(const Simulator& world) { return world.options().scenario.work == WorkKind::time; }

const PipelineMode* mode_of(const Simulator& world, PeerNumber peer) {
  const auto& node = world.peer(peer).node;
  return node ? node->as<PipelineMode>() : nullptr;
}

/// True if no hostile peer takes part in the generation. A hostile peer can lie to each peer about
/// its stages, results and copies, so checks that depend on these are skipped.
bool is_honest(const Simulator& world, const Generation& generation) {
  return !world.is_hostile(number_of(generation.id.proposer)) &&
         std::ranges::none_of(generation.order,
                              [&](PeerId peer) { return world.is_hostile(number_of(peer)); });
}

}  // namespace

PipelineInvariants::PeerRecord& PipelineInvariants::record(PeerNumber peer) {
  if (records_.size() <= peer) records_.resize(peer + 1);
  return records_[peer];
}

void PipelineInvariants::on_effects(const Simulator& world, PeerNumber peer,
                                    const NodeEffects& effects) {
  const PipelineMode* pipeline = mode_of(world, peer);
  if (pipeline == nullptr || world.is_hostile(peer)) return;
  check_amounts(world, peer, effects);
  for (const Outgoing& outgoing : effects.messages) {
    if (const auto* word = std::get_if<Complete>(&outgoing.message)) {
      said_[{key_of(word->ballot), word->step}].insert(peer);
    }
  }
  for (const Fact& fact : effects.facts) {
    // "micro-batches once": no peer refuses a sum after its own check.
    const auto* refused = std::get_if<SumRefused>(&fact);
    if (refused != nullptr && world.hostile_count() == 0) {
      fail(world, "micro-batches once",
           fmt::format("peer-{} refuses a sum: {}", peer, refused->why));
    }
  }
  const Generation* generation = pipeline->generations()->agreement().generation();
  if (!effects.jobs.empty())
    record(peer).job_generation = generation != nullptr ? generation->key() : 0;
  if (generation == nullptr) return;
  for (const Transfer& transfer : effects.transfers) {
    const TransferId& id = transfer.id;
    if (id.kind != TransferKind::copy || id.session != generation->key()) continue;
    keepers_[{generation->key(), id.stage}][number_of(transfer.to)].insert(id.number);
  }
}

/// "bounded": no call asks for more than a few messages and transfers for each peer, plus one of
/// each for each slice and carrier of the generation. Slices travel one by one. A peer requests
/// each slice that it must carry and does not have. It sends each of its own slices to the keeper
/// of that slice's copy, and to each other carrier that lacks the slice. In sums, it sends each
/// segment of its parameters at most once to each other peer.
void PipelineInvariants::check_amounts(const Simulator& world, PeerNumber peer,
                                       const NodeEffects& effects) {
  const std::size_t amount = std::max(effects.messages.size(), effects.transfers.size());
  const std::size_t few = 4 * world.size() + 64;
  if (amount <= few) return;
  note_slices(world, peer);
  std::size_t segments = 0;
  for (const PartSize& part : world.options().node.pipeline.part_sizes()) {
    segments += part.parameters / world.options().node.pipeline.segment_elements;
  }
  const auto pieces = static_cast<std::size_t>(
      std::ranges::count(effects.transfers, TransferKind::piece,
                         [](const Transfer& transfer) { return transfer.id.kind; }));
  const std::size_t of_sums = std::min(pieces, segments * (world.size() - 1));
  if (amount <= few + record(peer).slices + of_sums) return;
  fail(world, "bounded",
       fmt::format("peer-{} wants {} messages and {} transfers at once, and its generation has {} "
                   "slices",
                   peer, effects.messages.size(), effects.transfers.size(), record(peer).slices));
}

/// Records how many slices the peer's newest generation assigns, summed over its carriers.
void PipelineInvariants::note_slices(const Simulator& world, PeerNumber peer) {
  const Agreement& agreement = mode_of(world, peer)->generations()->agreement();
  const Generation* newest = agreement.generation();
  if (newest == nullptr) newest = agreement.last_generation();
  if (newest == nullptr || newest->key() == record(peer).slices_of) return;
  const StageParts parts = world.options().node.pipeline.parts();
  record(peer).slices_of = newest->key();
  record(peer).slices = static_cast<std::size_t>(std::ranges::count_if(
      parts.unpacked(newest->assignments),
      [&](const StageAssignment& assignment) { return parts.is_slice(assignment.stage); }));
}

void PipelineInvariants::on_job(const Simulator& world, PeerNumber peer, const Job& job) {
  if (mode_of(world, peer) == nullptr || world.is_hostile(peer)) return;
  if (const auto* end = first_of<task::EndRun>(job.tasks)) check_sums(world, peer, *end);
  if (const auto* loads = first_of<task::LoadStages>(job.tasks)) {
    for (const StageCopy& load : loads->states) check_becoming(world, peer, job.version, load);
  }
  const auto* pass = first_of<task::StagePass>(job.tasks);
  if (pass == nullptr) return;
  if (pass->what.tests) check_test(world, peer, job, *pass);
  const PipelineInstruction& what = pass->what;
  const bool counts =
      what.action == PipelineAction::backward || what.action == PipelineAction::backward_weight;
  const std::uint64_t generation = record(peer).job_generation;
  if (!counts || !pass->sum || generation == 0) return;
  // "micro-batches once": one peer, or each member of one group, takes each micro-batch back
  // through a stage once.
  const auto in = generations_.find(generation);
  if (in != generations_.end() && !is_honest(world, in->second)) return;
  int& times = went_back_[{generation, job.version.step}][{what.stage, pass->counted_at}];
  if (++times == 1) return;
  fail(world, "micro-batches once",
       fmt::format("peer-{} takes micro-batch {} of operation {} back through stage {} again", peer,
                   what.micro_batch, job.version.step, what.stage));
}

/// "whole tests": each micro-batch of a test goes through each stage once, or through each member
/// of a group once. A judge measures the model when its part of the test samples has gone through
/// all stages.
void PipelineInvariants::check_test(const Simulator& world, PeerNumber peer, const Job& job,
                                    const task::StagePass& pass) {
  const PipelineInstruction& what = pass.what;
  const PipelineOptions& pipeline = world.options().node.pipeline;
  const std::size_t sums =
      pass.group ? sums_in_tests(pipeline.stages[what.stage].forward_sums).size() : 0;
  if (what.action != PipelineAction::forward || pass.part < sums) return;
  const std::uint64_t key = record(peer).job_generation;
  const auto generation = generations_.find(key);
  if (generation == generations_.end() || !is_honest(world, generation->second)) return;
  Tested& tested = tested_[{key, job.version.step}];
  const std::size_t member = pass.group ? pass.group->own : 0;
  if (!tested.try_emplace({what.stage, what.micro_batch, member}, peer).second) {
    fail(world, "whole tests",
         fmt::format("peer-{} takes micro-batch {} of a test through stage {} again", peer,
                     what.micro_batch, what.stage));
  }
  const PipelineMode& mode = *mode_of(world, peer);
  const bool measures = first_of<task::Measure>(job.tasks) != nullptr;
  if (!measures || mode.generations()->key() != key) return;
  std::size_t own = 0;
  for (const auto& [name, by] : tested) {
    const auto [stage, micro_batch, place] = name;
    if (by != peer || stage + 1 != pipeline.stages.size()) continue;
    bool is_whole = true;
    for (std::uint32_t s = 0; s < stage; ++s) is_whole &= tested.contains({s, micro_batch, 0});
    own += is_whole;
  }
  if (own * mode.run().workers().back().size() * pipeline.micro_batch < pipeline.test_samples) {
    fail(world, "whole tests",
         fmt::format("peer-{} judges the model by {} micro-batches of a test", peer, own));
  }
}

/// "micro-batches once": checks the counts and values of the sum that an update uses.
void PipelineInvariants::check_sums(const Simulator& world, PeerNumber peer,
                                    const task::EndRun& run) {
  const PipelineOptions& pipeline = world.options().node.pipeline;
  for (const StageEnd& end : run.ends) {
    if (!end.sum) continue;
    const std::size_t size = pipeline.stages[end.stage].parameters;
    const std::span<const float> gradient = std::span<const float>(*end.sum).first(size);
    const auto counts = std::span<const float>(*end.sum).subspan(size);
    const std::size_t members = pipeline.planning().group.limit();
    std::size_t counted = 0;
    bool once = true;
    for (std::size_t b = 0; b < pipeline.micro_batches; ++b) {
      const auto of_members = counts.subspan(b * members, members);
      counted += of_members.front() == 1;
      // The sum has a place for each possible member. The counts of the group's members come first.
      once = once && std::ranges::is_sorted(of_members, std::greater{}) &&
             std::ranges::all_of(of_members, [](float one) { return one == 0 || one == 1; });
    }
    const bool all =
        pipeline.consensus != StageConsensus::allreduce || counted == pipeline.micro_batches;
    once = once && all && counted == end.micro_batches;
    // A hostile peer chooses its gradients freely, so check their values only without hostile
    // peers.
    if (is_idle(world) && world.hostile_count() == 0) {
      const auto is_sum = [&](float value) { return value == static_cast<float>(counted); };
      once = once && std::ranges::all_of(gradient, is_sum);
      // After the gradients of the slices come counts: for each slice, a count for each
      // micro-batch.
      if (end.slices) {
        const std::size_t slice = pipeline.stages[end.stage].slices.front().parameters;
        const std::size_t held = end.slices->size() / (slice + pipeline.micro_batches);
        const auto values = std::span<const float>(*end.slices).first(held * slice);
        once = once && std::ranges::all_of(values, is_sum);
      }
    }
    if (once) continue;
    fail(world, "micro-batches once",
         fmt::format("peer-{} updates stage {} with a sum of {} micro-batches for {}", peer,
                     end.stage, counted, end.micro_batches));
  }
}

/// "no stage from a guess": a peer loads only a state that some peer had at this version.
void PipelineInvariants::check_becoming(const Simulator& world, PeerNumber peer,
                                        const ModelVersion& version, const StageCopy& load) {
  // A hostile peer can hand over any state, and honest peers may pass that state on.
  if (world.hostile_count() > 0) return;
  const std::size_t size = world.options().node.pipeline.part_sizes()[load.part].parameters;
  // A slice without parameters, such as rows of images, cannot reveal a guess.
  if (size == 0) return;
  bool known = version.step == 0;
  if (load.values) {
    const auto at = states_.find({version.lineage, load.part});
    known = at != states_.end() &&
            at->second.contains(fingerprint(std::span<const float>(*load.values).first(size)));
  }
  if (known) return;
  fail(world, "no stage from a guess",
       fmt::format("peer-{} takes part {} over after operation {} as no peer had it", peer,
                   load.part, version.step));
}

void PipelineInvariants::on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) {
  if (mode_of(world, peer) == nullptr || world.is_hostile(peer)) return;
  const ModelVersion& version = done.job.version;
  // "one result of an operation": a job ends at the step of its version.
  if (done.step != version.step) {
    fail(world, "one result of an operation",
         fmt::format("peer-{} has made {} steps and stands at {}", peer, done.step, version.step));
  }
  const auto& tasks = done.job.tasks;
  const auto* exported = first_of<task::ExportStages>(tasks);
  const bool changes = first_of<task::EndRun>(tasks) != nullptr ||
                       first_of<task::LoadStages>(tasks) != nullptr ||
                       first_of<task::MoveTo>(tasks) != nullptr;
  if (!changes && exported == nullptr) return;
  const std::vector<PartSize> sizes = world.options().node.pipeline.part_sizes();
  for (std::uint32_t part = 0; part < sizes.size(); ++part) {
    const std::vector<float> own = world.peer(peer).work->part(part);
    if (!own.empty()) check_state(world, peer, version, part, own);
  }
  if (exported == nullptr) return;
  for (const StageCopy& copy : exported->copies) {
    check_state(world, peer, version, copy.part,
                std::span<const float>(*copy.values).first(sizes[copy.part].parameters));
  }
}

/// Checks "equal versions are equal bits". If stages only take time, their correct parameters are
/// known, so this also checks "no stage from a guess".
void PipelineInvariants::check_state(const Simulator& world, PeerNumber peer,
                                     const ModelVersion& version, std::uint32_t part,
                                     std::span<const float> parameters) {
  // A hostile peer can send each peer different gradients for a sum.
  if (world.hostile_count() > 0) return;
  ++states_seen_;
  auto& known = states_[{version.lineage, part}];
  known.insert(fingerprint(parameters));
  if (!are_bits_equal(world.options().node.pipeline)) return;
  if (known.size() > 1) {
    fail(world, "equal versions are equal bits",
         fmt::format("part {} of peer-{} after operation {} is not that of others", part, peer,
                     version.step));
  }
  const float wanted = -static_cast<float>(version.step);
  if (!is_idle(world) || parameters.front() == wanted) return;
  fail(world, "no stage from a guess",
       fmt::format("part {} of peer-{} is that of operation {} instead of {}", part, peer,
                   -parameters.front(), version.step));
}

void PipelineInvariants::on_state(const Simulator&, PeerNumber peer, PeerState state) {
  if (state == PeerState::down || state == PeerState::ended) record(peer) = {};
}

/// Call when the peer has entered another generation.
void PipelineInvariants::check_generation(const Simulator& world, PeerNumber peer,
                                          const Generation& generation) {
  // "one generation of a name": all peers know the same generation under one name.
  if (world.is_hostile(number_of(generation.id.proposer))) generations_.erase(generation.key());
  const auto& [entry, is_first] = generations_.try_emplace(generation.key(), generation);
  const Generation& known = entry->second;
  const bool same = known.id == generation.id && known.order == generation.order &&
                    known.shares == generation.shares && known.version == generation.version &&
                    known.ends == generation.ends && known.assignments == generation.assignments;
  if (!same || !generation.contains(id_of(peer)) ||
      record(peer).generations.contains(generation.key())) {
    fail(world, "one generation of a name",
         fmt::format("peer-{} is in another generation of the same name, or in one again", peer));
  }
  // "no stage from a guess": a peer that has passed the first run with copies does not restart from
  // the seed. It may, however, give up a downloaded state with which it has not finished a run.
  if (!is_honest(world, generation)) return;
  const std::uint64_t before = record(peer).made_step;
  if (generation.version.step == 0 && before > world.options().node.pipeline.copy_every) {
    fail(world, "no stage from a guess",
         fmt::format("peer-{} starts over after operation {}", peer, before));
  }
  if (!is_first) return;
  // "nothing given up": all peers continue from the newest version whose stages all have carriers.
  // There is one exception. If at most a third of all peers have a version, and it is more than two
  // runs ahead of the proposer, the proposer may consider that version unreachable.
  struct Carried {
    ModelVersion version;
    std::set<std::uint32_t> parts;
    std::size_t peers = 0;
  };
  std::map<std::uint64_t, Carried> carried;
  for (const PeerId member : generation.order) {
    const PeerRecord& its = record(number_of(member));
    // A peer that has answered a later ballot never begins this generation, so its stages do not
    // count.
    const PipelineMode* its_mode = mode_of(world, number_of(member));
    if (its_mode == nullptr || generation.id < its_mode->generations()->agreement().promised())
      continue;
    auto& [version, parts, peers] = carried[its.version.lineage];
    version = its.version;
    parts.insert(its.carried.begin(), its.carried.end());
    ++peers;
  }
  const PeerNumber proposer = number_of(generation.id.proposer);
  std::size_t all = generation.order.size();
  if (const PipelineMode* planned = mode_of(world, proposer)) {
    all = std::max(all, planned->generations()->candidates().size());
  }
  for (const auto& [lineage, held] : carried) {
    const auto& [version, parts, peers] = held;
    const bool whole = parts.size() == world.options().node.pipeline.parts().count();
    const bool is_far = version.step > record(proposer).version.step + 2;
    if (!whole || (is_far && 3 * peers <= all)) continue;
    if (!is_before(generation.version, version)) continue;
    fail(world, "nothing given up",
         fmt::format("all go back to operation {} although every stage of {} is there",
                     generation.version.step, version.step));
  }
}

/// Call when the peer has finished a run of the generation with this key.
void PipelineInvariants::check_made(const Simulator& world, PeerNumber peer,
                                    const ModelVersion& before, const ModelVersion& version,
                                    std::uint64_t key) {
  const RunName name{key, before.step};
  const Generation& generation = generations_.at(key);
  record(peer).made_in = key;
  record(peer).made_step = version.step;
  // "one result of an operation": all peers get the same version from one run.
  const bool is_common = !world.is_hostile(number_of(generation.id.proposer));
  const auto [result, is_first] = results_.try_emplace(name, version);
  if (is_common && (result->second != version || version.step != before.step + 1)) {
    fail(world, "one result of an operation",
         fmt::format("peer-{} makes operation {} unlike others in its generation", peer,
                     before.step));
  }
  // "one end": no run follows if all peers have agreed to end with the version with which the
  // generation begins. Without a common end, a hostile peer that leaves can still report one, and
  // the others ignore it.
  const bool has_common_end = world.options().node.course.work.budget > 0;
  if (has_common_end && generation.ends && is_honest(world, generation)) {
    fail(world, "one end",
         fmt::format("peer-{} makes operation {} after the agreed end", peer, before.step));
  }
  if (!is_first) return;
  // "everybody's word": all peers have reported their parts complete, or a later generation begins
  // with the result because all remaining peers have it.
  const std::uint64_t now_in = record(peer).generation;
  const Generation* last_generation =
      mode_of(world, peer)->generations()->agreement().last_generation();
  const bool begins_there =
      (now_in != key && now_in != 0 && generations_.at(now_in).version == version) ||
      (last_generation != nullptr && last_generation->version == version);
  // A hostile peer can claim that the run is finished, and the next generation then begins with its
  // result.
  const bool honest = is_honest(world, generation);
  for (const PeerId member : generation.order) {
    const bool has_said = member == id_of(peer) || said_[name].contains(number_of(member));
    if (begins_there || !honest || has_said) continue;
    fail(world, "everybody's word",
         fmt::format("peer-{} makes operation {}, and peer-{} has not said that its part is there",
                     peer, before.step, number_of(member)));
  }
  // "micro-batches once": no micro-batch is missing, except those of a lost peer if replicas share
  // no sum.
  const PipelineOptions& pipeline = world.options().node.pipeline;
  const std::size_t parts = pipeline.stages.size() * pipeline.micro_batches;
  const std::size_t members = pipeline.planning().group.limit();
  const bool all = !begins_there || pipeline.consensus == StageConsensus::allreduce;
  const auto passes =
      static_cast<std::size_t>(std::ranges::count_if(went_back_[name], [&](const auto& entry) {
        return entry.first.second % members == 0;  // Count only the group's first member.
      }));
  if (honest && all && passes != parts) {
    fail(
        world, "micro-batches once",
        fmt::format("operation {} is made of {} passes instead of {}", before.step, passes, parts));
  }
  went_back_.erase(name);
  tested_.erase(name);
  said_.erase(name);
  secure(world, generation, begins_there ? 0 : before.step);
}

/// "copies in place": when a run is finished, the copies of earlier runs have arrived.
void PipelineInvariants::secure(const Simulator& world, const Generation& generation,
                                std::uint64_t operation) {
  auto& holders = secured_[generation.key()];
  const StageParts parts = world.options().node.pipeline.parts();
  holders.assign(parts.count(), {});
  const auto add = [&](std::uint32_t stage, PeerNumber peer) {
    holders[stage].insert({peer, world.peer(peer).incarnation});
  };
  for (const StageAssignment& assignment : parts.unpacked(generation.assignments))
    add(assignment.stage, number_of(assignment.carrier));
  for (std::uint32_t stage = 0; stage < holders.size(); ++stage) {
    for (const auto& [keeper, copies] : keepers_[{generation.key(), stage}]) {
      add(stage, keeper);
      const PipelineMode* mode = mode_of(world, keeper);
      const auto later = copies.upper_bound(operation);
      const bool has_died =
          mode == nullptr || !record(keeper).generations.contains(generation.key());
      // A peer that was stopped may finish the run long after other peers have moved on.
      const std::uint64_t now_in = record(keeper).generation;
      const bool has_gone_on = now_in != 0 && now_in != generation.key();
      if (has_died || has_gone_on || later == copies.begin()) continue;
      const std::uint64_t newest = *std::prev(later);
      const bool has_it =
          std::ranges::any_of(parts.unpacked(mode->generations()->agreement().holdings()),
                              [&](const StageHolding& holding) {
                                return holding.stage == stage && holding.version.step == newest;
                              });
      if (has_it || !is_honest(world, generation)) continue;
      fail(world, "copies in place",
           fmt::format("operation {} is made, and peer-{} has not got the copy of stage {}",
                       operation, keeper, stage));
    }
  }
}

bool PipelineInvariants::is_stage_lost(const Simulator& world) const {
  // A peer that has later finished a run of another generation has dropped its older states.
  const auto has_it = [&](const Life& incarnation, std::uint64_t generation) {
    const VirtualPeer& peer = world.peer(incarnation.first);
    return peer.state == PeerState::up && peer.incarnation == incarnation.second &&
           records_[incarnation.first].made_in == generation;
  };
  return !secured_.empty() && std::ranges::none_of(secured_, [&](const auto& entry) {
    return std::ranges::all_of(entry.second, [&](const std::set<Life>& holders) {
      return std::ranges::any_of(
          holders, [&](const Life& incarnation) { return has_it(incarnation, entry.first); });
    });
  });
}

/// "every copy counts": in ballots, a peer reports every copy that it keeps.
void PipelineInvariants::check_claims(const Simulator& world, PeerNumber peer) {
  const PipelineMode& mode = *mode_of(world, peer);
  const StageParts parts = world.options().node.pipeline.parts();
  const std::vector<StageHolding> told = mode.generations()->agreement().holdings();
  const std::vector<StageHolding> claimed = parts.unpacked(told);
  if (told.size() == stage_holdings_max) return;
  for (const StageHolding& copy : mode.copies()) {
    if (std::ranges::find(claimed, copy) != claimed.end()) continue;
    fail(world, "every copy counts",
         fmt::format("peer-{} keeps a copy of part {} at step {}, and tells no ballot", peer,
                     copy.stage, copy.version.step));
  }
}

void PipelineInvariants::after(const Simulator& world, PeerNumber peer) {
  const PipelineMode* pipeline = mode_of(world, peer);
  if (pipeline == nullptr || world.is_hostile(peer)) return;
  PeerRecord& mine = record(peer);
  note_slices(world, peer);
  const Generation* generation = pipeline->generations()->agreement().generation();
  const std::uint64_t key = generation != nullptr ? generation->key() : 0;
  const bool is_new = key != mine.generation && generation != nullptr;
  if (key != mine.generation) check_claims(world, peer);
  mine.generation = key;
  if (is_new) check_generation(world, peer, *generation);
  if (key != 0) mine.generations.insert(key);
  const ModelVersion version = pipeline->generations()->agreement().version();
  const ModelVersion before = std::exchange(mine.version, version);
  if (mine.carried != pipeline->held_parts()) mine.carried = pipeline->held_parts();
  const bool is_new_here = !std::exchange(mine.seen, true);
  mine.made_step = is_new_here ? version.step : std::min(mine.made_step, version.step);
  if (is_new_here || version == before) return;
  // The peer may have finished a run of its current generation or of an earlier one.
  const auto leads_there = [&](std::uint64_t in) {
    return in != 0 && after_operation(before, in, 0).lineage == version.lineage;
  };
  const auto made_in = leads_there(key) ? mine.generations.find(key)
                                        : std::ranges::find_if(mine.generations, leads_there);
  if (made_in != mine.generations.end()) {
    check_made(world, peer, before, version, *made_in);
    return;
  }
  // Otherwise the peer moves to the version at which its generation begins. It may move directly to
  // the version after the generation's first run, if it has no part in that run and every peer has
  // completed it. A hostile proposer may have told each peer a different version.
  if (generation != nullptr &&
      after_operation(generation->version, key, 0).lineage == version.lineage) {
    check_made(world, peer, generation->version, version, key);
    return;
  }
  // An early message of a hostile peer can end a generation at the moment at which it begins.
  const bool begins_one = std::ranges::any_of(
      generations_, [&](const auto& entry) { return entry.second.version == version; });
  const bool has_left = generation == nullptr && world.hostile_count() > 0 && begins_one;
  if (!has_left && (generation == nullptr || version != generation->version)) {
    fail(world, "one result of an operation",
         fmt::format("peer-{} goes from operation {} to {}", peer, before.step, version.step));
  }
  if (is_before(version, before)) ++rollbacks_;
}

}  // namespace gv
