// The checkers for pipelines. Names in quotes are those of docs/simulator.md.
#include "sim/virtual/pipeline_invariants.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "base/fingerprint.hpp"
#include "peer/modes/stage_states.hpp"

namespace gv {
namespace {

/// All replicas of a stage have the same bits: they apply one sum.
bool are_bits_equal(const PipelineOptions& pipeline) {
  return pipeline.consensus == StageConsensus::ring && is_synchronous(pipeline.kind);
}

/// Every gradient is one for each micro-batch in it.
bool is_idle(const Simulator& world) { return world.options().scenario.work == WorkKind::time; }

const PipelineMode* mode_of(const Simulator& world, PeerNumber peer) {
  const auto& node = world.peer(peer).node;
  return node ? node->pipeline() : nullptr;
}

}  // namespace

void PipelineInvariants::fail(const Simulator& world, std::string invariant, std::string what) {
  if (violation_) return;
  violation_ = {std::move(invariant), std::move(what), world.now(), false};
}

PipelineInvariants::PeerRecord& PipelineInvariants::record(PeerNumber peer) {
  if (records_.size() <= peer) records_.resize(peer + 1);
  return records_[peer];
}

void PipelineInvariants::on_effects(const Simulator& world, PeerNumber peer,
                                    const NodeEffects& effects) {
  const PipelineMode* pipeline = mode_of(world, peer);
  if (pipeline == nullptr) return;
  for (const Outgoing& outgoing : effects.messages) {
    if (const auto* word = std::get_if<Complete>(&outgoing.message)) {
      said_[{key_of(word->ballot), word->operation}].insert(peer);
    }
  }
  for (const Event& event : effects.events) {
    // "micro-batches once", as peers find out themselves.
    if (event.name != "sum_refused") continue;
    fail(world, "micro-batches once", fmt::format("peer-{} refuses a sum: {}", peer, event.detail));
  }
  const Epoch* epoch = pipeline->agreement().epoch();
  if (!effects.jobs.empty()) record(peer).job_epoch = epoch != nullptr ? epoch->key() : 0;
  if (epoch == nullptr) return;
  for (const Transfer& transfer : effects.transfers) {
    if (!StageStates::is_copy_of(epoch->key(), transfer.id.session)) continue;
    const auto stage = static_cast<std::uint32_t>(transfer.id.number >> 48);
    const std::uint64_t operation = transfer.id.number & ((std::uint64_t{1} << 48) - 1);
    keepers_[{epoch->key(), stage}][number_of(transfer.to)].insert(operation);
  }
}

void PipelineInvariants::on_job(const Simulator& world, PeerNumber peer, const Job& job) {
  if (mode_of(world, peer) == nullptr || !job.stages) return;
  const StageJob& work = *job.stages;
  check_sums(world, peer, work);
  check_becoming(world, peer, work);
  if (!work.order || !work.order->is_pass()) return;
  const PipelineOperation& what = work.order->what;
  const bool counts =
      what.action == PipelineAction::backward || what.action == PipelineAction::backward_weight;
  const std::uint64_t epoch = record(peer).job_epoch;
  if (!counts || epoch == 0) return;
  // "micro-batches once": whoever carries them.
  int& times = went_back_[{epoch, work.standing.operation}][{what.stage, what.micro_batch}];
  if (++times == 1) return;
  fail(world, "micro-batches once",
       fmt::format("peer-{} takes micro-batch {} of operation {} back through stage {} again", peer,
                   what.micro_batch, work.standing.operation, what.stage));
}

/// "micro-batches once": what an update is made with.
void PipelineInvariants::check_sums(const Simulator& world, PeerNumber peer, const StageJob& work) {
  const PipelineOptions& pipeline = world.options().node.pipeline;
  for (const StageEnd& end : work.ends) {
    if (!end.sum) continue;
    const std::size_t size = pipeline.stages[end.stage].parameters;
    const std::span<const float> gradient = std::span<const float>(*end.sum).first(size);
    const auto lanes = std::span<const float>(*end.sum).subspan(size, pipeline.micro_batches);
    const auto counted = static_cast<std::size_t>(std::ranges::count(lanes, 1.0F));
    const bool all = pipeline.consensus != StageConsensus::ring || counted == lanes.size();
    bool once = all && counted == end.micro_batches &&
                std::ranges::all_of(lanes, [](float lane) { return lane == 0 || lane == 1; });
    if (is_idle(world)) {
      once = once && std::ranges::all_of(gradient, [&](float value) {
               return value == static_cast<float>(counted);
             });
    }
    if (once) continue;
    fail(world, "micro-batches once",
         fmt::format("peer-{} updates stage {} with a sum of {} micro-batches for {}", peer,
                     end.stage, counted, end.micro_batches));
  }
}

/// "no stage from a guess": what it becomes is what somebody was at that standing.
void PipelineInvariants::check_becoming(const Simulator& world, PeerNumber peer,
                                        const StageJob& work) {
  for (const StageBecomes& becomes : work.becomes) {
    const std::size_t size = world.options().node.pipeline.stages[becomes.stage].parameters;
    bool known = work.standing.operation == 0;
    if (becomes.values) {
      const auto at = states_.find({work.standing.history, becomes.stage});
      known = at != states_.end() &&
              at->second.contains(fingerprint(std::span<const float>(*becomes.values).first(size)));
    }
    if (known) continue;
    fail(world, "no stage from a guess",
         fmt::format("peer-{} takes stage {} over after operation {} as nobody had it", peer,
                     becomes.stage, work.standing.operation));
  }
}

void PipelineInvariants::on_job_done(const Simulator& world, PeerNumber peer, const JobDone& done) {
  if (mode_of(world, peer) == nullptr || !done.stages) return;
  const StageJob& work = *done.stages;
  // "one result of an operation".
  if (done.step != work.standing.operation) {
    fail(world, "one result of an operation",
         fmt::format("peer-{} has made {} steps and stands at {}", peer, done.step,
                     work.standing.operation));
  }
  if (work.ends.empty() && work.becomes.empty() && work.hand_overs.empty() && !work.moves_to) {
    return;
  }
  const std::vector<StageSize>& sizes = world.options().node.pipeline.stages;
  for (std::uint32_t stage = 0; stage < sizes.size(); ++stage) {
    const std::span<const float> own = world.peer(peer).work->stage(stage);
    if (!own.empty()) check_state(world, peer, work.standing, stage, own);
  }
  for (const StageCopy& copy : work.hand_overs) {
    check_state(world, peer, work.standing, copy.stage,
                std::span<const float>(*copy.values).first(sizes[copy.stage].parameters));
  }
}

/// "equal standings are equal bits", and of stages without a model the bits are known.
void PipelineInvariants::check_state(const Simulator& world, PeerNumber peer,
                                     const Standing& standing, std::uint32_t stage,
                                     std::span<const float> parameters) {
  ++states_seen_;
  auto& known = states_[{standing.history, stage}];
  known.insert(fingerprint(parameters));
  if (!are_bits_equal(world.options().node.pipeline)) return;
  if (known.size() > 1) {
    fail(world, "equal standings are equal bits",
         fmt::format("stage {} of peer-{} after operation {} is not that of others", stage, peer,
                     standing.operation));
  }
  const float wanted = -static_cast<float>(standing.operation);
  if (!is_idle(world) || parameters.front() == wanted) return;
  fail(world, "no stage from a guess",
       fmt::format("stage {} of peer-{} is that of operation {} instead of {}", stage, peer,
                   -parameters.front(), standing.operation));
}

void PipelineInvariants::on_state(const Simulator&, PeerNumber peer, PeerState state) {
  if (state == PeerState::down || state == PeerState::ended) record(peer) = {};
}

/// The peer is in an epoch that it was not in before.
void PipelineInvariants::check_epoch(const Simulator& world, PeerNumber peer, const Epoch& epoch) {
  // "one epoch of a name".
  const auto& [entry, is_first] = epochs_.try_emplace(epoch.key(), epoch);
  const Epoch& known = entry->second;
  const bool same = known.id == epoch.id && known.order == epoch.order &&
                    known.shares == epoch.shares && known.standing == epoch.standing &&
                    known.duties == epoch.duties;
  if (!same || !epoch.contains(id_of(peer)) || record(peer).epochs.contains(epoch.key())) {
    fail(world, "one epoch of a name",
         fmt::format("peer-{} is in another epoch of the same name, or in one again", peer));
  }
  // "no stage from a guess": who came past the first copying point does not begin anew.
  const std::uint64_t before = record(peer).standing.operation;
  if (epoch.standing.operation == 0 && before > world.options().node.pipeline.copy_every) {
    fail(world, "no stage from a guess",
         fmt::format("peer-{} begins anew after operation {}", peer, before));
  }
  if (!is_first) return;
  // "nothing given up": all go on from the newest standing whose stages are all carried.
  std::map<std::uint64_t, std::pair<Standing, std::set<std::uint32_t>>> carried;
  for (const PeerId member : epoch.order) {
    const PeerRecord& its = record(number_of(member));
    // Who has answered a later ballot since never begins this epoch, which nobody else does either.
    const PipelineMode* its_mode = mode_of(world, number_of(member));
    if (its_mode == nullptr || epoch.id < its_mode->agreement().promised()) continue;
    auto& [standing, stages] = carried[its.standing.history];
    standing = its.standing;
    stages.insert(its.carried.begin(), its.carried.end());
  }
  for (const auto& [history, held] : carried) {
    const auto& [standing, stages] = held;
    const bool whole = stages.size() == world.options().node.pipeline.stages.size();
    if (!whole || !is_before(epoch.standing, standing)) continue;
    fail(world, "nothing given up",
         fmt::format("all go back to operation {} although every stage of {} is there",
                     epoch.standing.operation, standing.operation));
  }
}

/// The peer has made an operation of that epoch.
void PipelineInvariants::check_made(const Simulator& world, PeerNumber peer, const Standing& before,
                                    const Standing& standing, std::uint64_t key) {
  const RunName name{key, before.operation};
  const Epoch& epoch = epochs_.at(key);
  record(peer).made_in = key;
  // "one result of an operation".
  const auto [result, is_first] = results_.try_emplace(name, standing);
  if (result->second != standing || standing.operation != before.operation + 1) {
    fail(world, "one result of an operation",
         fmt::format("peer-{} makes operation {} unlike others in its epoch", peer,
                     before.operation));
  }
  if (!is_first) return;
  // "everybody's word", or a later epoch that begins there, since all who are left have it.
  const std::uint64_t now_in = record(peer).epoch;
  const Epoch* farewell = mode_of(world, peer)->agreement().farewell();
  const bool begins_there =
      (now_in != key && now_in != 0 && epochs_.at(now_in).standing == standing) ||
      (farewell != nullptr && farewell->standing == standing);
  for (const PeerId member : epoch.order) {
    if (begins_there || member == id_of(peer) || said_[name].contains(number_of(member))) continue;
    fail(world, "everybody's word",
         fmt::format("peer-{} makes operation {}, and peer-{} has not said that its part is there",
                     peer, before.operation, number_of(member)));
  }
  // "micro-batches once": none is missing, but what one took with it that shares no sum.
  const PipelineOptions& pipeline = world.options().node.pipeline;
  const std::size_t parts = pipeline.stages.size() * pipeline.micro_batches;
  const bool all = !begins_there || pipeline.consensus == StageConsensus::ring;
  if (all && went_back_[name].size() != parts) {
    fail(world, "micro-batches once",
         fmt::format("operation {} is made of {} passes instead of {}", before.operation,
                     went_back_[name].size(), parts));
  }
  went_back_.erase(name);
  said_.erase(name);
  secure(world, epoch, begins_there ? 0 : before.operation);
}

/// "copies in place": with an operation made, copies from before it are where they belong.
void PipelineInvariants::secure(const Simulator& world, const Epoch& epoch,
                                std::uint64_t operation) {
  auto& holders = secured_[epoch.key()];
  holders.assign(world.options().node.pipeline.stages.size(), {});
  const auto add = [&](std::uint32_t stage, PeerNumber peer) {
    holders[stage].insert({peer, world.peer(peer).life});
  };
  for (const StageDuty& duty : epoch.duties) add(duty.stage, number_of(duty.carrier));
  for (std::uint32_t stage = 0; stage < holders.size(); ++stage) {
    for (const auto& [keeper, copies] : keepers_[{epoch.key(), stage}]) {
      add(stage, keeper);
      const PipelineMode* mode = mode_of(world, keeper);
      const auto later = copies.upper_bound(operation);
      const bool has_died = mode == nullptr || !record(keeper).epochs.contains(epoch.key());
      // Whoever slept may make the operation when the others have long gone on without it.
      const std::uint64_t now_in = record(keeper).epoch;
      const bool has_gone_on = now_in != 0 && now_in != epoch.key();
      if (has_died || has_gone_on || later == copies.begin()) continue;
      const std::uint64_t newest = *std::prev(later);
      const bool has_it =
          std::ranges::any_of(mode->agreement().claims(), [&](const StageClaim& claim) {
            return claim.stage == stage && claim.standing.operation == newest;
          });
      if (has_it) continue;
      fail(world, "copies in place",
           fmt::format("operation {} is made, and peer-{} has not got the copy of stage {}",
                       operation, keeper, stage));
    }
  }
}

bool PipelineInvariants::is_stage_lost(const Simulator& world) const {
  // Who has made an operation in another epoch since has dropped what it had from before.
  const auto has_it = [&](const Life& life, std::uint64_t epoch) {
    const VirtualPeer& peer = world.peer(life.first);
    return peer.state == PeerState::up && peer.life == life.second &&
           records_[life.first].made_in == epoch;
  };
  return !secured_.empty() && std::ranges::none_of(secured_, [&](const auto& entry) {
    return std::ranges::all_of(entry.second, [&](const std::set<Life>& holders) {
      return std::ranges::any_of(holders,
                                 [&](const Life& life) { return has_it(life, entry.first); });
    });
  });
}

void PipelineInvariants::after(const Simulator& world, PeerNumber peer) {
  const PipelineMode* pipeline = mode_of(world, peer);
  if (pipeline == nullptr) return;
  PeerRecord& mine = record(peer);
  const Epoch* epoch = pipeline->agreement().epoch();
  const std::uint64_t key = epoch != nullptr ? epoch->key() : 0;
  const bool is_new = key != mine.epoch && epoch != nullptr;
  mine.epoch = key;
  if (is_new) check_epoch(world, peer, *epoch);
  if (key != 0) mine.epochs.insert(key);
  const Standing standing = pipeline->agreement().standing();
  const Standing before = std::exchange(mine.standing, standing);
  mine.carried = pipeline->stages();
  if (!std::exchange(mine.seen, true) || standing == before) return;
  // It has made an operation of the epoch it is in, or of one that is over.
  const auto leads_there = [&](std::uint64_t in) {
    return in != 0 && after_operation(before, in, 0).history == standing.history;
  };
  const auto made_in =
      leads_there(key) ? mine.epochs.find(key) : std::ranges::find_if(mine.epochs, leads_there);
  if (made_in != mine.epochs.end()) {
    check_made(world, peer, before, standing, *made_in);
    return;
  }
  // Or it goes where its epoch begins, and at once on from there, if it has no part in the run and
  // everybody has said so.
  if (key != 0 && after_operation(epochs_.at(key).standing, key, 0).history == standing.history) {
    check_made(world, peer, epochs_.at(key).standing, standing, key);
    return;
  }
  if (key == 0 || standing != epochs_.at(key).standing) {
    fail(world, "one result of an operation",
         fmt::format("peer-{} goes from operation {} to {}", peer, before.operation,
                     standing.operation));
  }
  if (is_before(standing, before)) ++rollbacks_;
}

}  // namespace gv
