// Mode `allreduce` without a model: each call of the programs averages one array from every peer.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <memory>
#include <set>
#include <utility>

#include "peer/modes/allreduce.hpp"

namespace gv {
namespace {

/// The interval at which a leaving peer asks the others whether they have the last mean.
constexpr Duration asks_every = std::chrono::milliseconds(20);
/// The time after which a leaving peer stops waiting for peers that do not answer.
constexpr Duration waits_for_others_max = std::chrono::seconds(5);

/// A peer whose array has a different length reports the length to the others, and then stays for
/// this time. Otherwise they might first learn that it left, and compute the mean without it.
constexpr Duration told_within = std::chrono::seconds(1);

/// The number of floats that follow the summed array when a mean is sent: one for the sum of the
/// weights, and one for the number of peers.
constexpr std::size_t behind_mean = 2;

}  // namespace

/// Joins the newest call. A peer that is one call behind downloads the mean of its call, because
/// its array may be in that mean. A peer that was away for longer has missed calls. A newcomer
/// needs no mean.
void AllReduceMode::begin_calls(Time now, const Generation& generation, PeerId source,
                                Effects& out) {
  if (source == self_) {
    if (last_mean_.sum.values) states_ = transfer_of(last_mean_.sum.plan.elements + behind_mean);
    states_.need_nothing();
    begin_operation(now, out);
  } else if (operation_.array() > 0 && step() + 1 == generation.version.step) {
    states_ = transfer_of(operation_.array() + behind_mean);
    states_.fetch(now, generation, source, true, out);
  } else {
    states_.need_nothing();
    miss_call(now, out);
  }
}

/// Moves to the generation's call. An array that the program has passed, or is about to pass, to an
/// earlier call enters no mean.
void AllReduceMode::miss_call(Time now, Effects& out) {
  const ModelVersion& version = generations_.current()->version;
  states_.leave_generation();
  generations_.agreement().set_version(version);
  course_.go_back_to(version.step);
  operation_.forget_gradient();
  moves_to_ = version.step;
  begin_operation(now, out);
}

/// Takes over the mean of our present call, which another peer has sent.
void AllReduceMode::adopt_mean(Time now, ArrivedState state, Effects& out) {
  const std::size_t length = state.values->size() - behind_mean;
  CompressionPlan plan;
  plan.elements = length;
  const float peers = state.values->back();
  result_ = {.values = std::move(state.values),
             .plan = std::move(plan),
             .samples = peers >= 1 && peers < 1e6F ? static_cast<std::size_t>(peers) : 1,
             .local_steps = 0,
             .becomes_model_at = {}};
  last_mean_ = {*result_, state.version.step};
  generations_.agreement().set_version(state.version);
  course_.go_back_to(state.version.step);
  operation_.forget_gradient();
  ++counts_.states_adopted;
  out.tell(StateAdopted{.peer = state.from, .step = state.version.step});
  begin_operation(now, out);
}

/// True if we have the mean of the newest call. A peer that missed that call does not have it.
bool AllReduceMode::has_mean_of_step() const {
  return last_mean_.sum.values && last_mean_.step == step();
}

/// Sends the newest mean to peers that lack it, and leaves once all have it.
void AllReduceMode::follow_calls(Time now, Effects& out) {
  const Generation* generation = generations_.current();
  if (generation != nullptr && states_.owes_any() && has_mean_of_step() &&
      step() == generation->version.step) {
    const std::size_t floats = last_mean_.sum.plan.elements + 1;
    const VectorPool::Vector copy = states_.blank(generation->version);
    std::copy_n(last_mean_.sum.values->begin(), floats, copy->begin());
    copy->back() = static_cast<float>(last_mean_.sum.samples);
    counts_.states_sent += states_.send(*generation, copy, true, out);
  }
  if (fails_at_ && now >= *fails_at_) course_.fail();
  if (!leaving_ || now < leaving_->ask_at) return;
  if (leaving_->behind.empty() || now >= leaving_->until) {
    leaving_.reset();
    leave_at_once(now, out);
    return;
  }
  const GenerationId& ballot = generations_.agreement().promised();
  for (const PeerId peer : leaving_->behind) out.send(peer, StatusRequest{ballot});
  leaving_->ask_at = now + asks_every;
}

/// True if we have to stay because another peer may still lack the newest mean. Without us that
/// peer could not get it, and would compute a different one.
bool AllReduceMode::waits_for_others(Time now, Effects& out) {
  if (leaving_) return true;
  if (course_.has_failed() || !has_mean_of_step()) return false;
  std::set<PeerId> behind;
  if (const Generation* generation = generations_.current()) {
    for (std::size_t i = 0; i < generation->order.size(); ++i) {
      const bool may_lack = generation->sources[i] != generation->order[i];
      if (step() != generation->version.step || may_lack) behind.insert(generation->order[i]);
    }
  } else {
    // The generation may have ended before the last blocks of the mean arrived at the others.
    behind = {generations_.candidates().begin(), generations_.candidates().end()};
  }
  behind.erase(self_);
  if (behind.empty()) return false;
  leaving_ =
      Leaving{.behind = std::move(behind), .ask_at = now, .until = now + waits_for_others_max};
  follow_calls(now, out);
  return true;
}

/// Makes this peer fail soon if another peer has passed an array of a different length to the
/// present call. The programs have then diverged, and later calls would not match either.
void AllReduceMode::compare_arrays(Time now, Effects& out) {
  const std::size_t ours = operation_.array();
  if (ours == 0 || course_.is_leaving() || fails_at_) return;
  if (lengths_.must_tell(step(), operation_.has_unlike_arrays())) {
    for (const PeerId peer : generations_.candidates()) {
      if (peer != self_) {
        out.send(peer, Audit{generations_.agreement().promised(), step(), ours});
      }
    }
  }
  if (const auto unlike = lengths_.unlike(step(), ours)) {
    fails_at_ = now + told_within;
    out.tell(ArraysDiffer{
        .peer = unlike->peer, .call = step() + 1, .theirs = unlike->length, .ours = ours});
  }
}

}  // namespace gv
