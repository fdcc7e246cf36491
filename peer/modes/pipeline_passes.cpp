// Decides which pass of a run a peer computes next, and sends and receives the results of passes.
#include <algorithm>
#include <span>
#include <utility>

#include "base/check.hpp"
#include "base/magnitude.hpp"
#include "peer/modes/pipeline_run.hpp"

namespace gv {
namespace {

using Action = PipelineAction;

/// True if the instruction adds to the gradients of a stage.
bool accumulates(const PipelineInstruction& what) {
  if (what.tests) return false;
  return what.action == Action::backward || what.action == Action::backward_weight;
}

}  // namespace

GroupSumName PipelineRun::sum_name(const PipelineInstruction& what, std::size_t part) {
  return {what.stage, what.micro_batch, what.action != Action::forward, part};
}

const std::vector<GroupSum>& PipelineRun::sums_in(const PipelineInstruction& what) const {
  static const std::vector<GroupSum> none;
  const bool goes_back = what.action == Action::backward || what.action == Action::backward_input;
  const bool is_answer = what.tests && goes_back;
  if (own_group().size() == 1 || is_answer || (what.action != Action::forward && !goes_back)) {
    return none;
  }
  return group_sums_.sums_of(what.stage, what.micro_batch, goes_back);
}

StageValues PipelineRun::input_of(const PipelineInstruction& what) {
  const PassName name{operation_ % operations_named, what.stage, what.micro_batch,
                      what.action != Action::forward};
  const auto found = incoming_.find(name);
  if (found == incoming_.end() || !found->second.blocks.is_whole()) return nullptr;
  return found->second.values;
}

/// Skips updates if the schedule is synchronous, because an update then waits until the parts of
/// all peers are complete.
void PipelineRun::skip_updates() {
  if (!is_synchronous(options_.kind)) return;
  while (position_ < list().size() && list()[position_].action == Action::update) ++position_;
}

/// True if the instruction's pass may begin. While a pass waits for its group, the next pass may
/// begin too, unless it continues the same micro-batch. But two passes that add to gradients never
/// overlap, so that gradients are added in the order of the list.
bool PipelineRun::may_begin(const PipelineInstruction& what) const {
  if (passes_.empty()) return true;
  const PipelineInstruction& other = passes_.front().what;
  const bool continues = other.stage == what.stage && other.micro_batch == what.micro_batch;
  return passes_.size() == 1 && !continues && !(accumulates(other) && accumulates(what));
}

std::optional<Job::Task> PipelineRun::next() {
  if (!begun_) return std::nullopt;
  std::optional<Job::Task> task = parameters_task();
  if (!task) task = batch_in_advance();
  for (std::size_t i = 0; !task && i < passes_.size(); ++i) task = next_part(i);
  if (!task && position_ < list().size() && may_begin(list()[position_])) {
    const bool has_batch = drawn_for_ == list()[position_];
    passes_.push_back({.what = list()[position_], .part = has_batch ? std::size_t{1} : 0});
    task = next_part(passes_.size() - 1);
    if (!task && !has_batch) {
      passes_.pop_back();
      return std::nullopt;
    }
    ++position_;
    skip_updates();
    if (has_batch) drawn_for_.reset();
    // The next part may still be waiting for the batch that was drawn in advance.
    if (!task) return next();
  }
  computing_ += task.has_value();
  return task;
}

/// Returns the first part of our group's next forward pass through the first stage, in which the
/// group's first member draws the batch for all members. The part is returned in advance, so that
/// the batch travels to the members while they compute other passes. At most two batches are under
/// way.
std::optional<Job::Task> PipelineRun::batch_in_advance() {
  const bool is_ours = own_group().size() > 1 && carries(0);
  if (!is_ours || drawn_for_ || passes_.size() > 1) return std::nullopt;
  const std::span<const PipelineInstruction> to_come = std::span(list()).subspan(position_);
  const auto next = std::ranges::find_if(to_come, [](const PipelineInstruction& what) {
    return what.stage == 0 && what.action == Action::forward;
  });
  if (next == to_come.end() || sums_in(*next).empty()) return std::nullopt;
  drawn_for_ = *next;
  return part_of({.what = *next});
}

/// Returns the next part of a pass that has begun; nullopt while the input of that part is missing.
std::optional<Job::Task> PipelineRun::next_part(std::size_t pass) {
  Pass& under_way = passes_[pass];
  std::optional<task::StagePass> task = part_of(under_way);
  if (!task) return std::nullopt;
  if (under_way.part++ == sums_in(under_way.what).size()) {
    if (under_way.what.tests) give_out_test(under_way.what);
    passes_.erase(passes_.begin() + static_cast<std::ptrdiff_t>(pass));
  }
  return *std::move(task);
}

/// Returns the number of instructions that have added to the stage's gradients since its last
/// update, up to our position in the list.
std::size_t PipelineRun::gradients_since_update(std::uint32_t stage) const {
  std::size_t count = 0;
  for (std::size_t i = position_; i-- > 0;) {
    const PipelineInstruction& what = list()[i];
    if (what.stage != stage) continue;
    if (what.action == Action::update) break;
    count += accumulates(what);
  }
  return count;
}

/// Returns the input of a part: the values from the neighbouring stage or, after the first part,
/// the sum that followed the previous part. Null if the input is missing or not needed.
StageValues PipelineRun::input_of(const Pass& pass) {
  if (pass.part == 0) return input_of(pass.what);
  const GroupSumName name = sum_name(pass.what, pass.part - 1);
  StageValues sum = group_sums_.result(name);
  if (sum) group_sums_.close(name);
  return sum;
}

std::optional<task::StagePass> PipelineRun::part_of(const Pass& pass) {
  const PipelineInstruction& what = pass.what;
  const std::size_t last = options_.stages.size() - 1;
  const bool goes_on = what.action == Action::forward;
  const bool goes_back = what.action == Action::backward || what.action == Action::backward_input;
  const bool is_last = pass.part == sums_in(what).size();
  task::StagePass part{.what = what,
                       .part = pass.part,
                       .group = own_group().size() > 1 ? place_ : nullptr,
                       .draw = what.tests ? what.micro_batch - options_.micro_batches : drawn_,
                       .counted_at = what.micro_batch * members_max_ + place_->own};
  if (pass.part > 0 || (goes_on ? what.stage > 0 : goes_back && what.stage < last)) {
    part.in = input_of(pass);
    if (!part.in) return std::nullopt;
  }
  if (!is_last) part.out = group_sums_.open(sum_name(what, pass.part), own_peers_, *place_);
  if (is_last && goes_on && what.stage < last) {
    part.out = pools_.blank(options_.stages[what.stage + 1].forward);
  }
  if (is_last && goes_back && what.stage > 0) {
    part.out = pools_.blank(what.tests ? 1 : options_.stages[what.stage].backward);
  }
  if (is_last && (accumulates(what) || what.action == Action::update)) {
    part.sum = sum_of(what.stage).gradients;
    part.slices = sum_of(what.stage).slices;
  }
  // Only the first member of a group counts a batch, because it draws for all members.
  const bool draws = goes_on && what.stage == 0 && !what.tests;
  if (draws && pass.part == 0 && place_->is_first()) ++drawn_;
  if (what.action == Action::update) part.micro_batches = gradients_since_update(what.stage);
  return part;
}

/// Sends the result to the group that needs it, unless that group is ours and has it already. Each
/// of our members sends the result to some members of the other group.
void PipelineRun::pass_on(const task::StagePass& pass, Effects& out) {
  const bool goes_back = pass.what.action != Action::forward;
  const std::uint32_t stage = goes_back ? pass.what.stage - 1 : pass.what.stage + 1;
  const PassName name{operation_ % operations_named, stage, pass.what.micro_batch, goes_back};
  const std::uint32_t to = route_of(pass.what.micro_batch)[stage];
  const auto bytes = std::as_bytes(std::span<const float>(*pass.out));
  if (to == worker_) {
    incoming_[name] = {.from = self_, .values = pass.out, .blocks = {}};
    return;
  }
  const std::vector<std::uint32_t>& receivers = groups_.members[to];
  for (std::size_t i = place_->own; i < receivers.size(); i += own_group().size()) {
    bytes_sent_ += bytes.size();
    out.transfers.push_back({.to = order_[receivers[i]],
                             .id = pass_id(self_, key_, name),
                             .payload = {pass.out, bytes}});
  }
}

/// True if `from` is the neighbour that has to send us this pass. All members of the previous group
/// have the same values, and each member of our group gets them from one of those members. `ahead`
/// is 1 for a pass of the next run, which the sender has already begun, and 0 otherwise.
bool PipelineRun::is_from_neighbour(const PassName& name, std::uint64_t ahead, PeerId from) {
  const std::uint32_t stage = name.backward ? name.stage + 1 : name.stage - 1;
  const bool is_now = begun_ && ahead == 0;
  if (is_now && is_test(name.micro_batch) && !has_test_) return false;
  const std::vector<std::uint32_t>& route =
      is_now || is_test(name.micro_batch) ? route_of(name.micro_batch)
                                          : early_routes(operation_ + ahead)[name.micro_batch];
  const auto& senders = groups_.members[route[stage]];
  return order_[senders[place_->own % senders.size()]] == from && route[name.stage] == worker_;
}

/// Returns the routes of a run that has not begun at this peer yet.
const Routes& PipelineRun::early_routes(std::uint64_t operation) {
  const auto found = early_routes_.find(operation);
  if (found != early_routes_.end()) return found->second;
  return early_routes_.emplace(operation, routes_of(operation)).first->second;
}

bool PipelineRun::receive_pass(PeerId from, const Block& block) {
  const std::optional<PassName> named = pass_named(block.id);
  if (!named) return false;
  const PassName& name = *named;
  const bool known = name.stage < options_.stages.size() && carries(name.stage) &&
                     name.micro_batch < options_.micro_batches + tests_of_run() &&
                     (name.backward ? name.stage + 1 < options_.stages.size() : name.stage > 0);
  const std::uint64_t ahead = (name.operation - operation_) % operations_named;
  if (!known || block.id.owner != from || ahead > 1) return false;
  if (!is_from_neighbour(name, ahead, from)) return false;
  if (!incoming_.contains(name) && !may_keep(name)) return false;
  const std::size_t size = size_of(name);
  Incoming& incoming = incoming_[name];
  if (!incoming.values) {
    incoming = {from, pools_.blank(size), Reassembly(sizeof(float) * size, sizeof(float))};
  }
  const auto memory = std::as_writable_bytes(std::span<float>(*incoming.values));
  if (incoming.from != from || incoming.blocks.take(block, memory) != BlockFit::next) return false;
  // If we used these values, our own results would become invalid too, and other peers would blame
  // us.
  if (incoming.blocks.is_whole() && !(largest_magnitude(*incoming.values) <= largest_gradient)) {
    unsound_pass_ = from;
    incoming_.erase(name);
  }
  ++progress_;
  return true;
}

}  // namespace gv
