// Carries out passes between neighbours and sums between replicas.
#include "peer/modes/pipeline_run.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "base/check.hpp"
#include "base/magnitude.hpp"
#include "base/overloaded.hpp"
#include "base/rng.hpp"
#include "consensus/mixing/mix_message.hpp"
#include "peer/node/stage_mixers.hpp"

namespace gv {
namespace {

using Action = PipelineAction;

}  // namespace

PipelineRun::PipelineRun(PeerId self, std::uint64_t run_seed, const PipelineOptions& options)
    : self_(self), run_seed_(run_seed), options_(options), held_(pipeline_held_max) {}

// ---- Generations and runs ----

void PipelineRun::enter(const Generation& generation) {
  leave();
  key_ = generation.key();
  order_ = generation.order;
  rank_ = static_cast<std::size_t>(std::ranges::find(order_, self_) - order_.begin());
  operation_ = generation.version.step;
  speeds_.assign(generation.shares.begin(), generation.shares.end());
  replicas_.assign(options_.stages.size(), {});
  own_stages_.clear();
  for (const StageAssignment& assignment : generation.assignments) {
    const auto carrier = std::ranges::find(order_, assignment.carrier) - order_.begin();
    replicas_[assignment.stage].push_back(static_cast<std::uint32_t>(carrier));
    if (assignment.carrier == self_) own_stages_.push_back(assignment.stage);
  }
  for (auto& carriers : replicas_) std::ranges::sort(carriers);
  std::ranges::sort(own_stages_);
  if (options_.consensus != StageConsensus::mixing) return;
  for (const std::uint32_t stage : own_stages_) {
    if (replicas_[stage].size() > 1) enter_mixing(stage);
  }
}

void PipelineRun::enter_mixing(std::uint32_t stage) {
  const std::size_t size = options_.stages[stage].parameters;
  std::vector<PeerId> order;
  for (const std::uint32_t rank : replicas_[stage]) order.push_back(order_[rank]);
  const auto own = static_cast<std::size_t>(std::ranges::find(order, self_) - order.begin());
  RoundInbox box(
      [rule = options_.rule, size](std::uint64_t round, std::span<const std::byte> begin) {
        return mix_message_bytes<float>(rule, size, round, begin);
      },
      mix_message_bytes_max(size));
  box.enter(key_);
  mixing_.emplace(stage,
                  Mixing{.order = order,
                         .plan = {options_.rule, order.size(), stage_seed(run_seed_, stage)},
                         .box = std::move(box),
                         .place = MixPlace{.rank = own, .order = order, .key = key_, .step = 0}});
}

void PipelineRun::leave() {
  begun_ = false;
  key_ = 0;
  unsound_pass_.reset();
  mixing_.clear();
  incoming_.clear();
  held_.take();
}

StageValues PipelineRun::blank(std::size_t size) {
  return pools_.try_emplace(size, size, options_.memory).first->second.blank();
}

void PipelineRun::begin(std::uint64_t operation, Effects& out) {
  operation_ = operation;
  begun_ = true;
  computing_ = 0;
  position_ = 0;
  drawn_ = 0;
  routes_ = routes_of(operation);
  schedule_ =
      make_schedule(options_.kind, routes_, order_.size(), options_.accumulate, options_.ahead);
  // Keep only early results of this run that came from the neighbour that the routes name.
  std::erase_if(incoming_, [this](const auto& entry) {
    const bool is_now = entry.first.operation == operation_ % operations_named;
    return !is_now || !is_from_neighbour(entry.first, entry.second.from);
  });
  groups_.clear();
  for (const std::uint32_t stage : own_stages_) make_group(stage);
  skip_updates();
  begin_sums(out);
  for (const EarlyBlocks::Held& piece : held_.take()) receive(piece.from, piece.block, out);
}

Routes PipelineRun::routes_of(std::uint64_t operation) const {
  return make_routes(options_.kind, options_.router, replicas_, options_.micro_batches, speeds_,
                     Rng(run_seed_).fork("routes").fork(operation));
}

/// Ranks of the peers that share one sum of this stage with us in this run, ourselves included.
std::vector<std::uint32_t> PipelineRun::partners(std::uint32_t stage) const {
  std::vector<std::uint32_t> members = replicas_[stage];
  if (options_.consensus == StageConsensus::allreduce) return members;
  if (options_.consensus == StageConsensus::mixing) return {static_cast<std::uint32_t>(rank_)};
  // Neighbours in an order drawn for this run form a random matching.
  Rng(run_seed_).fork("pairs").fork(operation_).fork(stage).shuffle(std::span(members));
  const auto own = std::ranges::find(members, rank_) - members.begin();
  const auto first = static_cast<std::size_t>(own) / 2 * 2;
  const bool is_due = operation_ % options_.mix_every == 0;
  if (!is_due || first + 1 >= members.size()) return {static_cast<std::uint32_t>(rank_)};
  std::vector<std::uint32_t> pair = {members[first], members[first + 1]};
  std::ranges::sort(pair);
  return pair;
}

void PipelineRun::make_group(std::uint32_t stage) {
  const std::size_t size = options_.stages[stage].parameters;
  const std::size_t whole = size + options_.micro_batches;
  Group group{.stage = stage, .members = {}, .sum = blank(whole), .parameters = {}, .reduce = {}};
  std::ranges::fill(*group.sum, 0.0F);
  for (const auto& route : routes_) group.own += route[stage] == rank_;
  if (mixing_.contains(stage) && operation_ % options_.mix_every == 0) {
    group.round = operation_ / options_.mix_every;
  }
  for (const std::uint32_t member : partners(stage)) group.members.push_back(order_[member]);
  if (group.members.size() > 1) {
    const bool averages =
        options_.consensus == StageConsensus::gossip || !is_synchronous(options_.kind);
    if (averages) group.parameters = blank(whole);
    AllReduceShape shape{.order = group.members,
                         .generation = key_,
                         .stage = stage,
                         .algorithm = fastest(group.members.size(), size, {}),
                         .buckets = {},
                         .segment = options_.segment_elements,
                         .unweighted_from = size,
                         .largest = largest_gradient};
    // A replica that made no update in the run takes over the mean of the others.
    const bool counts = !averages || options_.consensus == StageConsensus::gossip || group.own > 0;
    if (averages) {
      std::size_t counted = group.members.size();
      if (options_.consensus == StageConsensus::allreduce) {
        std::set<std::uint32_t> working;
        for (const auto& route : routes_) working.insert(route[stage]);
        counted = working.size();
      }
      shape.scale = 1 / static_cast<float>(counted);
    }
    const std::size_t bucket =
        std::max(options_.bucket_elements, whole / PieceName::buckets_max + 1);
    for (std::size_t begin = 0; begin < whole; begin += bucket) {
      shape.buckets.push_back({begin, std::min(begin + bucket, whole)});
    }
    group.buckets = shape.buckets.size();
    group.reduce.emplace(shape, self_, operation_, counts ? 1.0F : 0.0F,
                         averages ? group.parameters : group.sum, blank(whole));
  }
  groups_.push_back(std::move(group));
}

PipelineRun::Group& PipelineRun::group_of(std::uint32_t stage) {
  const auto found = std::ranges::find(groups_, stage, &Group::stage);
  check(found != groups_.end(), "a peer computes the stages it carries");
  return *found;
}

// ---- Orders ----

/// The next task for parameters to be averaged: at the beginning, while all peers compute; or at
/// the end of a schedule of many updates.
std::optional<Job::Task> PipelineRun::parameters_task() {
  const bool at_begin = is_synchronous(options_.kind);
  if (!at_begin && !is_list_done()) return std::nullopt;
  for (Group& group : groups_) {
    if ((!group.parameters && !group.round) || group.ordered) continue;
    group.ordered = true;
    if (group.round) {
      std::optional<MixPlace>& place = mixing_.at(group.stage).place;
      return task::SendStage{.stage = group.stage,
                             .place = std::exchange(place, std::nullopt),
                             .round = *group.round,
                             .outbox = std::make_shared<MixOutbox>()};
    }
    return task::CopyParameters{.stage = group.stage, .sum = group.sum, .out = group.parameters};
  }
  return std::nullopt;
}

StageValues PipelineRun::input_of(const PipelineInstruction& what) {
  const PassName name{operation_ % operations_named, what.stage, what.micro_batch,
                      what.action != Action::forward};
  const auto found = incoming_.find(name);
  if (found == incoming_.end()) return nullptr;
  return found->second.blocks.is_whole() ? found->second.values : nullptr;
}

/// Skips the updates in a synchronous schedule, because every peer's part has to be complete before
/// an update.
void PipelineRun::skip_updates() {
  if (!is_synchronous(options_.kind)) return;
  while (!is_list_done() && list()[position_].action == Action::update) ++position_;
}

std::optional<Job::Task> PipelineRun::next() {
  if (!begun_) return std::nullopt;
  std::optional<Job::Task> task = parameters_task();
  if (!task && !is_list_done()) {
    task = pass_for(list()[position_]);
    if (!task) return std::nullopt;
    ++position_;
    skip_updates();
  }
  computing_ += task.has_value();
  return task;
}

/// Number of the stage's gradients in the list since its last update, up to our position.
std::size_t PipelineRun::gradients_since_update(std::uint32_t stage) const {
  std::size_t count = 0;
  for (std::size_t i = position_; i-- > 0;) {
    const PipelineInstruction& what = list()[i];
    if (what.stage != stage) continue;
    if (what.action == Action::update) break;
    count += what.action == Action::backward || what.action == Action::backward_weight;
  }
  return count;
}

/// The pass of an instruction; nullopt while its input is missing.
std::optional<task::StagePass> PipelineRun::pass_for(const PipelineInstruction& what) {
  const std::size_t last = options_.stages.size() - 1;
  const bool forward = what.action == Action::forward;
  const bool goes_back = what.action == Action::backward || what.action == Action::backward_input;
  const bool takes_input = forward ? what.stage > 0 : goes_back && what.stage < last;
  task::StagePass pass{.what = what, .draw = drawn_, .in = {}, .out = {}, .sum = {}};
  if (takes_input) {
    pass.in = input_of(what);
    if (!pass.in) return std::nullopt;
  }
  if (forward && what.stage < last) pass.out = blank(options_.stages[what.stage + 1].forward);
  if (goes_back && what.stage > 0) pass.out = blank(options_.stages[what.stage].backward);
  if (!forward && what.action != Action::backward_input) pass.sum = group_of(what.stage).sum;
  if (forward && what.stage == 0) ++drawn_;
  if (what.action == Action::update) pass.micro_batches = gradients_since_update(what.stage);
  return pass;
}

void PipelineRun::done(const Job& job, Effects& out) {
  if (!begun_) return;
  --computing_;
  ++progress_;
  const Overloaded take{
      [&](const task::StagePass& pass) {
        const PipelineInstruction& what = pass.what;
        if (pass.in) {
          incoming_.erase({operation_ % operations_named, what.stage, what.micro_batch,
                           what.action != Action::forward});
        }
        if (pass.out) pass_on(pass, out);
      },
      [&](const task::CopyParameters& copy) { group_of(copy.stage).copied = true; },
      [&](const task::SendStage& send) { send_round(send, out); }, [](const auto&) {}};
  for (const Job::Task& task : job.tasks) std::visit(take, task);
  begin_sums(out);
}

void PipelineRun::send_round(const task::SendStage& send, Effects& out) {
  group_of(send.stage).sent = true;
  for (const MixMessage& message : send.outbox->messages) {
    for (const std::size_t to : message.to) {
      bytes_sent_ += message.bytes->size();
      out.transfers.push_back({.to = mixing_.at(send.stage).order[to],
                               .id = mixing_id(self_, key_, send.round, send.stage),
                               .payload = {message.bytes, *message.bytes}});
    }
  }
}

void PipelineRun::pass_on(const task::StagePass& pass, Effects& out) {
  const bool backward = pass.what.action != Action::forward;
  const std::uint32_t stage = backward ? pass.what.stage - 1 : pass.what.stage + 1;
  const PassName name{operation_ % operations_named, stage, pass.what.micro_batch, backward};
  const std::uint32_t to = routes_[pass.what.micro_batch][stage];
  const auto bytes = std::as_bytes(std::span<const float>(*pass.out));
  if (to == rank_) {
    incoming_[name] = {.from = self_, .values = pass.out, .blocks = {}};
    return;
  }
  bytes_sent_ += bytes.size();
  out.transfers.push_back(
      {.to = order_[to], .id = pass_id(self_, key_, name), .payload = {pass.out, bytes}});
}

/// True if all messages that the round mixes are there.
bool PipelineRun::is_heard(const Group& group) const {
  const Mixing& mixing = mixing_.at(group.stage);
  const auto own = std::ranges::find(mixing.order, self_) - mixing.order.begin();
  const RoundTurn turn = mixing.plan.turn(static_cast<std::size_t>(own), *group.round);
  return std::ranges::all_of(turn.in, [&](const Share& share) {
    return mixing.box.has(mixing.order[share.from], *group.round);
  });
}

std::vector<MixMessage> PipelineRun::take_round(const Group& group) {
  Mixing& mixing = mixing_.at(group.stage);
  std::vector<MixMessage> messages = mixing.box.take(*group.round, mixing.order);
  mixing.box.close_before(*group.round + 1);
  return messages;
}

/// Begins sums: of gradients when all are computed, of parameters when they are copied.
void PipelineRun::begin_sums(Effects& out) {
  const bool computed = is_list_done() && computing_ == 0;
  for (Group& group : groups_) {
    const bool is_there = group.parameters ? group.copied : computed;
    if (!group.reduce || group.offered || !is_there) continue;
    group.offered = true;
    for (std::size_t bucket = 0; bucket < group.buckets; ++bucket) group.reduce->ready(bucket, out);
  }
}

bool PipelineRun::is_complete() const {
  return begun_ && is_list_done() && computing_ == 0 &&
         std::ranges::all_of(groups_, [this](const Group& group) {
           const bool is_summed = !group.reduce || (group.offered && group.reduce->done());
           return is_summed && (!group.round || (group.sent && is_heard(group)));
         });
}

bool PipelineRun::involves(PeerId peer) const {
  const auto rank = std::ranges::find(order_, peer) - order_.begin();
  const auto carries = [&](std::uint32_t stage) {
    return stage < replicas_.size() &&
           std::ranges::find(replicas_[stage], rank) != replicas_[stage].end();
  };
  return std::ranges::any_of(own_stages_, [&](std::uint32_t stage) {
    return carries(stage) || carries(stage + 1) || (stage > 0 && carries(stage - 1));
  });
}

std::optional<PeerId> PipelineRun::unsound_from() const {
  if (unsound_pass_) return unsound_pass_;
  for (const Group& group : groups_) {
    if (begun_ && group.reduce && group.reduce->unsound_from()) return group.reduce->unsound_from();
  }
  return std::nullopt;
}

bool PipelineRun::is_waiting() const { return begun_ && computing_ == 0; }

bool PipelineRun::counts_once() const {
  return std::ranges::all_of(groups_, [this](const Group& group) {
    const std::size_t size = options_.stages[group.stage].parameters;
    const bool together =
        options_.consensus == StageConsensus::allreduce && group.reduce.has_value();
    const Floats& values = together ? *group.reduce->result() : *group.sum;
    for (std::size_t b = 0; b < options_.micro_batches; ++b) {
      const bool is_ours = together || routes_[b][group.stage] == rank_;
      if (values[size + b] != (is_ours ? 1.0F : 0.0F)) return false;
    }
    return true;
  });
}

std::vector<StageEnd> PipelineRun::finish() {
  check(is_complete(), "a run is over when it is complete");
  std::vector<StageEnd> ends;
  for (Group& group : groups_) {
    StageEnd end{.stage = group.stage};
    const StageValues result = group.reduce ? group.reduce->result() : nullptr;
    if (group.reduce) bytes_sent_ += group.reduce->bytes_sent();
    if (group.parameters) end.mean = result;
    if (options_.consensus == StageConsensus::gossip && end.mean) {
      end.snapshot = group.parameters;
      end.force = static_cast<float>(2 * options_.mix_alpha);
    }
    if (is_synchronous(options_.kind)) {
      const bool summed = result && !group.parameters;
      end.sum = summed ? result : group.sum;
      end.micro_batches =
          options_.consensus == StageConsensus::allreduce ? options_.micro_batches : group.own;
      if (end.micro_batches == 0) end.sum = nullptr;
    }
    if (group.round) {
      end.round = group.round;
      end.arrived = take_round(group);
    }
    ends.push_back(std::move(end));
  }
  begun_ = false;
  return ends;
}

// ---- Blocks ----

bool PipelineRun::is_from_neighbour(const PassName& name, PeerId from) const {
  const std::uint32_t stage = name.backward ? name.stage + 1 : name.stage - 1;
  return order_[routes_[name.micro_batch][stage]] == from &&
         routes_[name.micro_batch][name.stage] == rank_;
}

bool PipelineRun::carries(std::uint32_t stage) const {
  return std::ranges::find(own_stages_, stage) != own_stages_.end();
}

bool PipelineRun::receive(PeerId from, const Block& block, Effects& out) {
  if (key_ == 0 || block.id.session != key_) return false;
  switch (block.id.kind) {
    case TransferKind::pass:
      return receive_pass(from, block);
    case TransferKind::mixing:
      return receive_message(from, block);
    case TransferKind::piece:
      return receive_piece(from, block, out);
    default:
      return false;
  }
}

bool PipelineRun::receive_message(PeerId from, const Block& block) {
  const auto found = mixing_.find(block.id.stage);
  if (found == mixing_.end()) return false;
  Mixing& mixing = found->second;
  // No peer is further ahead than one run.
  const std::uint64_t ahead = block.id.number - operation_ / options_.mix_every;
  const bool is_replica = std::ranges::find(mixing.order, from) != mixing.order.end();
  if (ahead > 1 || !is_replica || !mixing.box.receive(from, block)) return false;
  ++progress_;
  return true;
}

bool PipelineRun::receive_piece(PeerId from, const Block& block, Effects& out) {
  if (!carries(block.id.stage)) return false;
  if (begun_) {
    std::optional<AllReduce>& reduce = group_of(block.id.stage).reduce;
    if (reduce && reduce->receive(from, block, out)) {
      ++progress_;
      return true;
    }
  }
  // A block of the next run, which its sender has begun already. Repeated blocks belong to no run.
  const std::uint64_t ahead = (piece_named(block.id)->operation - operation_) % operations_named;
  const bool is_next = ahead == 1 || (ahead == 0 && !begun_);
  return is_next && block.offset == 0 && held_.keep(from, block);
}

std::span<std::byte> PipelineRun::place(PeerId from, const TransferId& id, std::uint64_t offset,
                                        std::size_t bytes) {
  const bool is_ours = id.kind == TransferKind::piece && id.session == key_ && carries(id.stage);
  if (key_ == 0 || !begun_ || !is_ours) return {};
  std::optional<AllReduce>& reduce = group_of(id.stage).reduce;
  return reduce ? reduce->place(from, id, offset, bytes) : std::span<std::byte>();
}

bool PipelineRun::receive_pass(PeerId from, const Block& block) {
  const std::optional<PassName> named = pass_named(block.id);
  if (!named) return false;
  const PassName& name = *named;
  const bool known = name.stage < options_.stages.size() &&
                     name.micro_batch < options_.micro_batches &&
                     (name.backward ? name.stage + 1 < options_.stages.size() : name.stage > 0);
  const std::uint64_t ahead = (name.operation - operation_) % operations_named;
  if (!known || block.id.owner != from || ahead > 1) return false;
  if (begun_ && ahead == 0 && !is_from_neighbour(name, from)) return false;
  const std::size_t size = name.backward ? options_.stages[name.stage + 1].backward
                                         : options_.stages[name.stage].forward;
  Incoming& incoming = incoming_[name];
  if (!incoming.values) {
    incoming = {from, blank(size), Reassembly(sizeof(float) * size, sizeof(float))};
  }
  const auto memory = std::as_writable_bytes(std::span<float>(*incoming.values));
  if (incoming.from != from || incoming.blocks.take(block, memory) != BlockFit::next) return false;
  // Our own values would not be sound either, and other peers would blame us.
  if (incoming.blocks.is_whole() && !(largest_magnitude(*incoming.values) <= largest_gradient)) {
    unsound_pass_ = from;
    incoming_.erase(name);
  }
  ++progress_;
  return true;
}

}  // namespace gv
