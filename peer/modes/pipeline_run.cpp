// Makes the passes between neighbours and the sums between replicas.
#include "peer/modes/pipeline_run.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/check.hpp"
#include "base/magnitude.hpp"
#include "base/overloaded.hpp"
#include "base/rng.hpp"
#include "base/state_hash.hpp"
#include "consensus/mixing/mix_message.hpp"
#include "peer/node/stage_mixers.hpp"

namespace gv {
namespace {

using Action = PipelineAction;

}  // namespace

PipelineRun::PipelineRun(PeerId self, std::uint64_t run_seed, const PipelineOptions& options)
    : self_(self),
      run_seed_(run_seed),
      options_(options),
      plan_(options.planning()),
      members_max_(plan_.group.limit()),
      group_sums_(self, options),
      held_(pipeline_held_max),
      pools_(options.memory) {}

// ---- Generations and runs ----

void PipelineRun::enter(const Generation& generation) {
  leave();
  key_ = generation.key();
  order_ = generation.order;
  rank_ = static_cast<std::size_t>(std::ranges::find(order_, self_) - order_.begin());
  operation_ = generation.version.step;
  routes_.clear();
  holders_.assign(plan_.parts.count(), {});
  for (const StageAssignment& assignment : generation.assignments) {
    const auto carrier = std::ranges::find(order_, assignment.carrier) - order_.begin();
    holders_[assignment.stage].push_back(static_cast<std::uint32_t>(carrier));
  }
  for (auto& carriers : holders_) std::ranges::sort(carriers);
  replicas_.assign(holders_.begin(),
                   holders_.begin() + static_cast<std::ptrdiff_t>(options_.stages.size()));
  const HeldParts held = held_parts(order_, generation.assignments, plan_.parts);
  own_stages_ = held.stages[rank_];
  own_slices_ = held.slices[rank_];
  std::size_t held_max = pipeline_held_max;
  for (const std::uint32_t stage : own_stages_) held_max += options_.sent_bytes_max(stage);
  held_ = EarlyBlocks(held_max);
  enter_groups(held, generation.shares);
  if (options_.consensus != StageConsensus::mixing) return;
  for (const std::uint32_t stage : own_stages_) {
    if (replicas_[stage].size() > 1) enter_mixing(stage);
  }
}

void PipelineRun::enter_groups(const HeldParts& held, const std::vector<std::uint32_t>& speeds) {
  groups_ = groups_of(held, plan_.parts);
  worker_ = groups_.group_of[rank_];
  GroupPlace place{.slices = own_slices_.empty() ? Range{} : own_slices_.begin()->second,
                   .members = groups_.members[worker_].size()};
  own_peers_.clear();
  std::set<std::size_t> cuts;
  worker_speeds_.assign(groups_.members.size(), 0);
  for (std::uint32_t rank = 0; rank < order_.size(); ++rank) {
    if (groups_.group_of[rank] == worker_) {
      if (rank == rank_) place.own = own_peers_.size();
      own_peers_.push_back(order_[rank]);
      if (!held.slices[rank].empty()) cuts.insert(held.slices[rank].begin()->second.begin);
    }
    worker_speeds_[groups_.group_of[rank]] += speeds[rank];
  }
  cuts.erase(0);
  place.cuts.assign(cuts.begin(), cuts.end());
  place_ = std::make_shared<const GroupPlace>(std::move(place));
  workers_.assign(replicas_.size(), {});
  for (std::uint32_t group = 0; group < groups_.members.size(); ++group) {
    for (const std::uint32_t stage : held.stages[groups_.members[group].front()]) {
      workers_[stage].push_back(group);
    }
  }
  // The number of tests depends on `workers_`, and all members must number sums in the same way.
  test_routes_ = make_routes(RouterKind::fixed, workers_, tests_of_run(), worker_speeds_, Rng(0));
  group_sums_.enter(key_, options_.micro_batches + test_routes_.size(), held_.bytes_max());
  group_sums_.begin(operation_);
}

double PipelineRun::own_share() const {
  if (own_slices_.empty()) return 1;
  const std::size_t all = plan_.parts.slices_of(own_slices_.begin()->first).size();
  return static_cast<double>(place_->slices.size()) / static_cast<double>(all);
}

std::vector<std::uint32_t> PipelineRun::own_parts() const {
  std::vector<std::uint32_t> parts;
  for (std::uint32_t part = 0; part < holders_.size(); ++part) {
    if (carries(part)) parts.push_back(part);
  }
  return parts;
}

Range PipelineRun::own_slices(std::uint32_t stage) const {
  const auto own = own_slices_.find(stage);
  return own == own_slices_.end() ? Range{} : own->second;
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
  box.enter(key_, order);
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
  early_routes_.clear();
  passes_.clear();
  drawn_for_.reset();
  held_.take();
  group_sums_.leave();
}

void PipelineRun::begin(std::uint64_t operation, bool tests, Effects& out) {
  operation_ = operation;
  begun_ = true;
  computing_ = 0;
  position_ = 0;
  passes_.clear();
  drawn_for_.reset();
  drawn_ = 0;
  group_sums_.begin(operation);
  if (routes_.empty() || options_.router == RouterKind::random) {
    routes_ = routes_of(operation);
    PipelineSchedule schedule = make_schedule(options_.kind, routes_, groups_.members.size(),
                                              options_.accumulate, options_.ahead);
    scheduled_ = std::move(schedule.workers[worker_]);
  }
  list_ = scheduled_;
  has_test_ = tests;
  tests_left_ = 0;
  is_tested_ = false;
  if (tests) begin_test();
  early_routes_.clear();
  // Keep only the early results of this run. If it has no test, test results are dropped.
  std::erase_if(incoming_, [this](const auto& entry) {
    const bool is_now = entry.first.operation == operation_ % operations_named;
    return !is_now || !is_from_neighbour(entry.first, 0, entry.second.from);
  });
  sums_.clear();
  for (const std::uint32_t stage : own_stages_) make_sum(stage);
  skip_updates();
  begin_sums(out);
  for (const EarlyBlocks::Held& piece : held_.take()) receive(piece.from, piece.block, out);
}

Routes PipelineRun::routes_of(std::uint64_t operation) const {
  return make_routes(options_.kind, options_.router, workers_, options_.micro_batches,
                     worker_speeds_, Rng(run_seed_).fork("routes").fork(operation));
}

/// Returns the ranks of the peers, including ourselves, that sum this stage together in this run.
std::vector<std::uint32_t> PipelineRun::partners(std::uint32_t stage) const {
  std::vector<std::uint32_t> members = replicas_[stage];
  if (options_.consensus == StageConsensus::allreduce) return members;
  if (options_.consensus == StageConsensus::mixing) return {static_cast<std::uint32_t>(rank_)};
  // Draw a random order for this run. The first two peers in that order form a pair, the next two
  // form another, and so on.
  Rng(run_seed_).fork("pairs").fork(operation_).fork(stage).shuffle(std::span(members));
  const auto own = std::ranges::find(members, rank_) - members.begin();
  const auto first = static_cast<std::size_t>(own) / 2 * 2;
  const bool is_due = operation_ % options_.mix_every == 0;
  if (!is_due || first + 1 >= members.size()) return {static_cast<std::uint32_t>(rank_)};
  std::vector<std::uint32_t> pair = {members[first], members[first + 1]};
  std::ranges::sort(pair);
  return pair;
}

void PipelineRun::make_sum(std::uint32_t stage) {
  const std::size_t size = options_.stages[stage].parameters;
  const std::size_t whole = size + options_.micro_batches * members_max_;
  StageSum sum{.stage = stage,
               .members = {},
               .gradients = pools_.blank(whole),
               .parameters = {},
               .reduce = {}};
  std::ranges::fill(*sum.gradients, 0.0F);
  for (const auto& route : routes_) sum.own += route[stage] == worker_;
  if (mixing_.contains(stage) && operation_ % options_.mix_every == 0) {
    sum.round = operation_ / options_.mix_every;
  }
  for (const std::uint32_t member : partners(stage)) sum.members.push_back(order_[member]);
  if (sum.members.size() > 1) {
    const bool averages =
        options_.consensus == StageConsensus::gossip || !is_synchronous(options_.kind);
    if (averages) sum.parameters = pools_.blank(whole);
    AllReduceShape shape{.order = sum.members,
                         .generation = key_,
                         .stage = stage,
                         .algorithm = fastest(sum.members.size(), size, {}),
                         .buckets = {},
                         .segment = options_.segment_elements,
                         .unweighted_from = size,
                         .largest = largest_gradient};
    // A replica that made no update in the run takes over the mean of the other replicas.
    const bool counts = !averages || options_.consensus == StageConsensus::gossip || sum.own > 0;
    if (averages) {
      std::size_t counted = sum.members.size();
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
    sum.buckets = shape.buckets.size();
    sum.reduce.emplace(shape, self_, operation_, counts ? 1.0F : 0.0F,
                       averages ? sum.parameters : sum.gradients, pools_.blank(whole));
  }
  make_slice_sums(sum);
  static_assert(std::is_nothrow_move_constructible_v<StageSum>, "a growing list copies no values");
  sums_.push_back(std::move(sum));
}

void PipelineRun::make_slice_sums(StageSum& sum) {
  const Range own = own_slices(sum.stage);
  if (own.empty()) return;
  const auto& sizes = options_.stages[sum.stage].slices;
  std::size_t all = 0;
  for (std::size_t s = own.begin; s < own.end; ++s) all += sizes[s].parameters;
  const std::size_t whole = all + own.size() * options_.micro_batches;
  sum.slices = pools_.blank(whole);
  std::ranges::fill(*sum.slices, 0.0F);
  if (workers_[sum.stage].size() == 1) return;
  sum.sliced = pools_.blank(whole);
  const std::size_t first = plan_.parts.slices_of(sum.stage).begin;
  Range values;
  for (std::size_t begin = own.begin, end = begin; begin < own.end; begin = end) {
    const std::vector<std::uint32_t>& holders = holders_[first + begin];
    values.begin = values.end;
    for (; end < own.end && holders_[first + end] == holders; ++end) {
      values.end += sizes[end].parameters;
    }
    const auto part = static_cast<std::uint32_t>(first + begin);
    AllReduceShape shape{.order = {},
                         .generation = key_,
                         .stage = part,
                         .algorithm = fastest(holders.size(), values.size(), {}),
                         .buckets = {},
                         .segment = options_.segment_elements,
                         .largest = largest_gradient};
    for (const std::uint32_t rank : holders) shape.order.push_back(order_[rank]);
    const std::size_t bucket =
        std::max(options_.bucket_elements, values.size() / (PieceName::buckets_max - 1) + 1);
    for (std::size_t at = values.begin; at < values.end; at += bucket) {
      shape.buckets.push_back({at, std::min(at + bucket, values.end)});
    }
    shape.buckets.push_back({all + (begin - own.begin) * options_.micro_batches,
                             all + (end - own.begin) * options_.micro_batches});
    const std::size_t buckets = shape.buckets.size();
    sum.slice_sums.push_back(
        {.part = part,
         .buckets = buckets,
         .reduce = AllReduce(shape, self_, operation_, 1, sum.slices, sum.sliced)});
  }
}

AllReduce* PipelineRun::reduce_of(std::uint32_t part) {
  StageSum& sum = sum_of(plan_.parts.stage_of(part));
  if (!plan_.parts.is_slice(part)) return sum.reduce ? &*sum.reduce : nullptr;
  const auto found = std::ranges::find(sum.slice_sums, part, &SliceSum::part);
  return found == sum.slice_sums.end() ? nullptr : &found->reduce;
}

PipelineRun::StageSum& PipelineRun::sum_of(std::uint32_t stage) {
  const auto found = std::ranges::find(sums_, stage, &StageSum::stage);
  check(found != sums_.end(), "a peer computes the stages it carries");
  return *found;
}

// ---- Orders ----

/// Returns the next task that sends or copies parameters for averaging. If the schedule is
/// synchronous, the task comes at the start of a run, while all peers still compute; otherwise it
/// comes at the end.
std::optional<Job::Task> PipelineRun::parameters_task() {
  const bool at_begin = is_synchronous(options_.kind);
  if (!at_begin && !is_list_done()) return std::nullopt;
  for (StageSum& sum : sums_) {
    if ((!sum.parameters && !sum.round) || sum.ordered) continue;
    sum.ordered = true;
    if (sum.round) {
      std::optional<MixPlace>& place = mixing_.at(sum.stage).place;
      return task::SendStage{.stage = sum.stage,
                             .place = std::exchange(place, std::nullopt),
                             .round = *sum.round,
                             .outbox = std::make_shared<MixOutbox>()};
    }
    return task::CopyParameters{.stage = sum.stage, .sum = sum.gradients, .out = sum.parameters};
  }
  return std::nullopt;
}

void PipelineRun::done(const Job& job, Effects& out) {
  if (!begun_) return;
  --computing_;
  ++progress_;
  const Overloaded take{[&](const task::StagePass& pass) {
                          const PipelineInstruction& what = pass.what;
                          if (pass.in && pass.part == 0) {
                            incoming_.erase({operation_ % operations_named, what.stage,
                                             what.micro_batch, what.action != Action::forward});
                          }
                          if (pass.part < sums_in(what).size()) {
                            group_sums_.ready(sum_name(what, pass.part), out);
                          } else if (pass.out) {
                            pass_on(pass, out);
                          }
                        },
                        [&](const task::CopyParameters& copy) { sum_of(copy.stage).copied = true; },
                        [&](const task::SendStage& send) { send_round(send, out); },
                        [](const auto&) {}};
  for (const Job::Task& task : job.tasks) std::visit(take, task);
  begin_sums(out);
}

void PipelineRun::send_round(const task::SendStage& send, Effects& out) {
  sum_of(send.stage).sent = true;
  for (const MixMessage& message : send.outbox->messages) {
    for (const std::size_t to : message.to) {
      bytes_sent_ += message.bytes->size();
      out.transfers.push_back({.to = mixing_.at(send.stage).order[to],
                               .id = mixing_id(self_, key_, send.round, send.stage),
                               .payload = {message.bytes, *message.bytes}});
    }
  }
}

/// True if all messages that this stage mixes in this round have arrived.
bool PipelineRun::is_heard(const StageSum& sum) const {
  const Mixing& mixing = mixing_.at(sum.stage);
  const auto own = std::ranges::find(mixing.order, self_) - mixing.order.begin();
  const RoundTurn turn = mixing.plan.turn(static_cast<std::size_t>(own), *sum.round);
  return std::ranges::all_of(turn.in, [&](const Share& share) {
    return mixing.box.has(mixing.order[share.from], *sum.round);
  });
}

std::vector<MixMessage> PipelineRun::take_round(const StageSum& sum) {
  Mixing& mixing = mixing_.at(sum.stage);
  std::vector<MixMessage> messages = mixing.box.take(*sum.round);
  mixing.box.close_before(*sum.round + 1);
  return messages;
}

/// Begins the sums whose values are ready. Gradients are ready once all of them are computed, and
/// parameters once they are copied.
void PipelineRun::begin_sums(Effects& out) {
  const bool computed = is_list_done() && computing_ == 0;
  for (StageSum& sum : sums_) {
    const bool is_there = sum.parameters ? sum.copied : computed;
    if (sum.offered || !is_there) continue;
    sum.offered = true;
    for (std::size_t bucket = 0; sum.reduce && bucket < sum.buckets; ++bucket) {
      sum.reduce->ready(bucket, out);
    }
    for (SliceSum& own : sum.slice_sums) {
      for (std::size_t bucket = 0; bucket < own.buckets; ++bucket) own.reduce.ready(bucket, out);
    }
  }
}

bool PipelineRun::is_complete() const {
  return begun_ && is_list_done() && computing_ == 0 &&
         std::ranges::all_of(sums_, [this](const StageSum& sum) {
           const bool is_summed = !sum.reduce || (sum.offered && sum.reduce->done());
           const bool are_slices = std::ranges::all_of(sum.slice_sums, [&](const SliceSum& own) {
             return sum.offered && own.reduce.done();
           });
           return is_summed && are_slices && (!sum.round || (sum.sent && is_heard(sum)));
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
  if (const auto sender = group_sums_.unsound_from()) return sender;
  for (const StageSum& sum : sums_) {
    if (!begun_) break;
    if (sum.reduce && sum.reduce->unsound_from()) return sum.reduce->unsound_from();
    for (const SliceSum& own : sum.slice_sums) {
      if (own.reduce.unsound_from()) return own.reduce.unsound_from();
    }
  }
  return std::nullopt;
}

bool PipelineRun::is_waiting() const { return begun_ && computing_ == 0; }

bool PipelineRun::counts_once() const {
  return std::ranges::all_of(sums_, [this](const StageSum& sum) {
    const std::size_t size = options_.stages[sum.stage].parameters;
    const bool together = options_.consensus == StageConsensus::allreduce && sum.reduce.has_value();
    const Floats& values = together ? *sum.reduce->result() : *sum.gradients;
    for (std::size_t b = 0; b < options_.micro_batches; ++b) {
      const std::uint32_t worker = routes_[b][sum.stage];
      const std::size_t members = groups_.members[worker].size();
      for (std::size_t m = 0; m < members_max_; ++m) {
        const bool counts = m < members && (together || worker == worker_);
        if (values[size + b * members_max_ + m] != (counts ? 1.0F : 0.0F)) return false;
      }
    }
    if (!sum.slices) return true;
    const Floats& slices = sum.sliced ? *sum.sliced : *sum.slices;
    const std::size_t counts = own_slices(sum.stage).size() * options_.micro_batches;
    return std::all_of(slices.end() - static_cast<std::ptrdiff_t>(counts), slices.end(),
                       [](float count) { return count == 1; });
  });
}

std::vector<StageEnd> PipelineRun::finish() {
  check(is_complete(), "a run is over when it is complete");
  std::vector<StageEnd> ends;
  for (StageSum& sum : sums_) {
    StageEnd end{.stage = sum.stage};
    const StageValues result = sum.reduce ? sum.reduce->result() : nullptr;
    if (sum.reduce) bytes_sent_ += sum.reduce->bytes_sent();
    for (const SliceSum& own : sum.slice_sums) bytes_sent_ += own.reduce.bytes_sent();
    if (sum.parameters) end.mean = result;
    if (options_.consensus == StageConsensus::gossip && end.mean) {
      end.snapshot = sum.parameters;
      end.force = static_cast<float>(2 * options_.mix_alpha);
    }
    if (is_synchronous(options_.kind)) {
      const bool summed = result && !sum.parameters;
      end.sum = summed ? result : sum.gradients;
      end.micro_batches =
          options_.consensus == StageConsensus::allreduce ? options_.micro_batches : sum.own;
      if (end.micro_batches == 0) end.sum = nullptr;
      end.slices = sum.sliced ? sum.sliced : sum.slices;
    }
    if (sum.round) {
      end.round = sum.round;
      end.arrived = take_round(sum);
    }
    ends.push_back(std::move(end));
  }
  begun_ = false;
  return ends;
}

// ---- Blocks ----

bool PipelineRun::carries(std::uint32_t part) const {
  return part < holders_.size() && std::ranges::binary_search(holders_[part], rank_);
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
  // No peer can be more than one round ahead of us.
  const std::uint64_t ahead = block.id.number - operation_ / options_.mix_every;
  const bool is_replica = std::ranges::find(mixing.order, from) != mixing.order.end();
  if (ahead > 1 || !is_replica || !mixing.box.receive(from, block)) return false;
  ++progress_;
  return true;
}

bool PipelineRun::receive_piece(PeerId from, const Block& block, Effects& out) {
  if (group_sums_.owns(block.id)) {
    const bool is_ours = carries(group_sums_.stage_of(block.id));
    if (!is_ours || !group_sums_.receive(from, block, out)) return false;
    ++progress_;
    return true;
  }
  if (!carries(block.id.stage)) return false;
  if (AllReduce* reduce = begun_ ? reduce_of(block.id.stage) : nullptr) {
    if (reduce->receive(from, block, out)) {
      ++progress_;
      return true;
    }
  }
  // Keep blocks of the next run, which the sender has already begun, but no repeated blocks.
  const std::uint64_t ahead = (piece_named(block.id)->operation - operation_) % operations_named;
  const bool is_next = ahead == 1 || (ahead == 0 && !begun_);
  return is_next && block.offset == 0 && held_.keep(from, block);
}

std::span<std::byte> PipelineRun::place(PeerId from, const TransferId& id, std::uint64_t offset,
                                        std::size_t bytes) {
  if (key_ == 0 || !begun_ || id.kind != TransferKind::piece || id.session != key_) return {};
  if (group_sums_.owns(id)) return group_sums_.place(from, id, offset, bytes);
  if (!carries(id.stage)) return {};
  AllReduce* reduce = reduce_of(id.stage);
  return reduce != nullptr ? reduce->place(from, id, offset, bytes) : std::span<std::byte>();
}

// ---- Values ----

PipelineRun::StageSums::StageSums(const StageSums& other) : std::vector<StageSum>(other) {
  // AllReduce has no setters for its memory, because nothing else moves that memory.
  using Input = std::shared_ptr<const Floats>;
  for (StageSum& sum : *this) {
    if (sum.reduce) {
      std::get<Input&>(fields_of(*sum.reduce)) = sum.parameters ? sum.parameters : sum.gradients;
    }
    for (SliceSum& own : sum.slice_sums) {
      std::get<Input&>(fields_of(own.reduce)) = sum.slices;
      std::get<Values&>(fields_of(own.reduce)) = StageValues(sum.sliced);
    }
  }
}

/// The fields that make up the state: all except reusable memory and fields that follow from
/// others.
auto PipelineRun::state() const {
  const auto& [self, seed, options, plan, members_max, key, order, rank, replicas, holders, stages,
               slices, groups, worker, peers, workers, speeds, place, operation, begun, computing,
               routes, early_routes, test_routes, has_test, scheduled, list, tests_left, is_tested,
               position, passes, drawn_for, drawn, sums, group_sums, mixing, incoming, held, pools,
               progress, unsound, sent] = *this;
  return std::tie(self, seed, options, key, order, rank, replicas, holders, stages, slices, groups,
                  worker, peers, workers, speeds, place, operation, begun, computing, routes,
                  test_routes, has_test, scheduled, list, tests_left, is_tested, position, passes,
                  drawn_for, drawn, sums, group_sums, mixing, incoming, held, progress, unsound,
                  sent);
}

bool operator==(const PipelineRun& a, const PipelineRun& b) {
  return equal_states(a.state(), b.state());
}

void PipelineRun::add_to(StateHash& hash) const { hash.add(state()); }

}  // namespace gv
