// The course of lockstep training: agreement, operations, and what ends an epoch.
#include "peer/modes/ring.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "consensus/base/check.hpp"
#include "consensus/base/rng.hpp"

namespace gv {
namespace {

RingAgreement::Options agreement_options(const CourseOptions& course, const RingOptions& options) {
  RingAgreement::Options agreement = options.agreement;
  agreement.elements = course.elements;
  agreement.algorithm = options.algorithm;
  const bool plain = options.codec == ValueCodec::identity && options.keep_per_block == 0;
  if (!plain) agreement.algorithm = ReduceAlgorithm::ring;
  agreement.batch = options.batch;
  agreement.batch_max = std::max(options.batch, options.batch_max);
  return agreement;
}

/// "host" of "host:port".
std::string_view host_of(std::string_view address) { return address.substr(0, address.rfind(':')); }

}  // namespace

RingMode::RingMode(PeerId self, std::uint64_t session, const CourseOptions& course,
                   const RingOptions& options)
    : Mode(self, course),
      session_(session),
      options_(options),
      agreement_(self, session, agreement_options(course, options)),
      operation_(self, course.elements, options),
      survey_(self, course.elements),
      states_(self, course.layout_hash, options.state_elements, options.memory),
      stalls_(self),
      renewal_(self) {}

RingCounts RingMode::counts() const {
  RingCounts counts = counts_;
  counts.losses = interruptions_.losses();
  counts.reduced_bytes = operation_.bytes_sent();
  return counts;
}

void RingMode::begin_at(std::uint64_t step) {
  // Equal standings must mean equal bits: before the first operation all have the seed's model, and
  // what a checkpoint holds only this process knows.
  agreement_.set_standing(
      {.operation = step,
       .samples = step * options_.batch,
       .history = hash_combine(hash_combine(course_.run_seed, course_.layout_hash),
                               step == 0 ? 0 : hash_combine(step, session_))});
}

// ---- Epochs ----

void RingMode::set_candidates(Time now, Membership& members) {
  std::vector<PeerId> candidates;
  double on_our_host = 0;
  for (const PeerId peer : members.view().peers()) {
    const Member* member = members.find(peer);
    const bool alike =
        peer == self_ || (member != nullptr && member->layout_hash == course_.layout_hash &&
                          member->state != MemberState::dead);
    if (!alike) continue;
    candidates.push_back(peer);
    on_our_host += peer == self_ || host_of(member->address) == host_of(members.self().address);
  }
  if (candidates == candidates_) return;
  candidates_ = candidates;
  agreement_.set_candidates(now, std::move(candidates));
  const bool one_host = on_our_host == static_cast<double>(candidates_.size());
  const bool shares = one_host && options_.memory != std::pmr::get_default_resource();
  agreement_.set_site(
      {.link = shares     ? memory_link
               : one_host ? host_link
                          : network_link,
       .peers_per_processor = options_.processors > 0 ? on_our_host / options_.processors : 0,
       .shares_memory = shares});
}

void RingMode::enter_epoch(Time now, Effects& out) {
  leave_epoch();
  const Epoch& epoch = *agreement_.epoch();
  ++counts_.epochs;
  epoch_key_ = epoch.key();
  operation_.enter(epoch);
  begun_in_epoch_ = 0;
  survey_.begin(epoch.order, epoch_key_);
  stalls_.enter_epoch(now);
  renewal_.enter_epoch(now, epoch.order.size());
  const auto rank = std::ranges::find(epoch.order, self_) - epoch.order.begin();
  const PeerId source = epoch.sources[static_cast<std::size_t>(rank)];
  if (source != self_) {
    states_.fetch(now, epoch, source, out);
  } else {
    begin_operation(now, out);
  }
}

void RingMode::leave_epoch() {
  epoch_key_ = 0;
  operation_.leave(key_of(agreement_.promised()));
  survey_.end();
  states_.leave_epoch();
  stalls_.leave_epoch();
  renewal_.rest();
}

/// For all, and for us at once.
void RingMode::end_epoch(Time now, const std::vector<PeerId>& blamed, Effects& out) {
  agreement_.disturb(now, blamed, out);
  leave_epoch();
}

/// Something is wrong.
void RingMode::disturb(Time now, const std::vector<PeerId>& blamed, Effects& out) {
  if (!wanted_) return;
  if (agreement_.epoch() != nullptr) {
    interruptions_.become_interrupted(now, operation_.order());
    Event ended{.name = "epoch_ended"};
    if (!blamed.empty()) ended.peer = blamed.front();
    out.events.push_back(std::move(ended));
  }
  end_epoch(now, blamed, out);
}

void RingMode::look_for_renewal(Time now, Effects& out) {
  if (agreement_.epoch() == nullptr) return;
  if (phase_ == Phase::done) {
    renewal_.rest();
  } else if (renewal_.newcomers_wait(now, agreement_, candidates_, out)) {
    end_epoch(now, {}, out);
    return;
  }
  if (renewal_.ballot_is_due(*agreement_.epoch(), candidates_, counts_.operations)) {
    end_epoch(now, {}, out);
  }
}

void RingMode::watch_for_stalls(Time now, Effects& out) {
  if (const auto silent = states_.tick(now, out)) disturb(now, {*silent}, out);
  const Epoch* epoch = agreement_.epoch();
  if (epoch == nullptr) return;
  if (!operation_.is_waiting()) {
    stalls_.rest(now);
    return;
  }
  const auto lost = stalls_.watch(now, *epoch, operation_.progress(), agreement_.patience(), out);
  if (lost) disturb(now, {lost->begin(), lost->end()}, out);
}

// ---- Operations ----

void RingMode::begin_operation(Time now, Effects& out) {
  if (step() >= course_.steps || leaving_) return;
  survey_.operation_began(now, begun_in_epoch_++, from_seconds(stalls_.operation_seconds()), out);
  operation_.set_quiet(is_quiet(now), out);
  operation_.begin(step(), options_.local.steps_at(step(), course_.steps), out);
}

void RingMode::finish_operations(Time now, Effects& out) {
  while (operation_.is_done()) {
    check(!result_, "a sum is applied before the next is made");
    RingOperation::Vector sum = operation_.finish();
    if (!sum) {
      out.events.push_back(
          {.name = "sum_refused", .detail = "not everybody's share is in it once"});
      disturb(now, {}, out);
      return;
    }
    result_ = std::move(sum);
    result_samples_ = operation_.samples();
    result_steps_ = operation_.is_local() ? operation_.steps() : 0;
    const Standing before = agreement_.standing();
    agreement_.set_standing(
        after_operation(before, epoch_key_, operation_.samples(), operation_.steps()));
    states_.forget_debts();
    ++counts_.operations;
    stalls_.operation_done(now, counts_.operations > 1 && !interruptions_.is_interrupted());
    renewal_.operation_done(now);
    agreement_.set_operation_seconds(stalls_.operation_seconds());
    interruptions_.become_resumed(now, operation_.order(), before.operation, out);
    begin_operation(now, out);
  }
}

// ---- What comes ----

/// To who asks whether we are there.
void RingMode::answer(PeerId from, Effects& out) {
  const Epoch* epoch = agreement_.epoch();
  const bool computing = job_running_ && !operation_.is_waiting();
  out.send(from, Here{.ballot = epoch != nullptr ? epoch->id : agreement_.promised(),
                      .operation = agreement_.standing().operation,
                      .busy = epoch != nullptr && (computing || states_.is_fetching())});
}

void RingMode::receive(Time now, PeerId from, const Message& message, Membership& members,
                       Effects& out) {
  if (!started_ || !members.view().contains(from)) return;
  const Epoch* epoch = agreement_.epoch();
  if (std::holds_alternative<Check>(message)) {
    answer(from, out);
    agreement_.heard(from);
  } else if (const auto* here = std::get_if<Here>(&message)) {
    agreement_.heard(from);
    if (!stalls_.is_asking() || epoch == nullptr || !epoch->contains(from)) return;
    stalls_.heard(from, here->busy);
    if (here->ballot != epoch->id) disturb(now, {}, out);
  } else if (const auto* fetch = std::get_if<Fetch>(&message)) {
    // Once an operation of the epoch is finished everybody has had the state: asked again, late.
    if (epoch == nullptr || agreement_.standing() != epoch->standing) return;
    if (states_.is_asked(*epoch, from, *fetch)) states_.owe(from);
  } else if (const auto* probed = std::get_if<Probed>(&message)) {
    survey_.receive(now, from, *probed, out);
    agreement_.set_links(survey_.reports());
  } else if (!leaving_) {
    if (std::holds_alternative<Propose>(message)) wanted_ = true;
    agreement_.receive(now, from, message, out);
    const bool ended = epoch != nullptr && agreement_.epoch() == nullptr;
    if (ended) interruptions_.become_interrupted(now, operation_.order());
  }
}

void RingMode::receive_block(Time now, PeerId from, const Block& block, Effects& out) {
  if (StateCourier::concerns(block)) {
    states_.receive(now, from, block);
  } else if (survey_.receive_block(from, block, out)) {
    return;
  } else if (operation_.receive(from, block, out)) {
    finish_operations(now, out);
  } else if (block.id.session == key_of(agreement_.promised()) && block.offset == 0) {
    operation_.keep(from, block);
  }
}

void RingMode::lane_lost(Time now, PeerId peer, Effects& out) {
  survey_.lane_lost(peer);
  agreement_.set_links(survey_.reports());
  // While all stand still, whoever is lost is not waited for.
  const bool concerns = agreement_.epoch() == nullptr || operation_.involves(peer) ||
                        states_.fetches_from(peer) || states_.owes(peer);
  if (concerns) disturb(now, {peer}, out);
}

void RingMode::lane_refused(Time now, PeerId peer, Effects& out) {
  survey_.lane_refused(peer);
  lane_lost(now, peer, out);
}

void RingMode::peer_gone(Time now, PeerId peer, Effects& out) {
  std::erase(candidates_, peer);
  agreement_.set_candidates(now, candidates_);
  const Epoch* epoch = agreement_.epoch();
  const bool concerns = epoch == nullptr || (epoch->contains(peer) && phase_ != Phase::done);
  if (concerns) disturb(now, {peer}, out);
}

// ---- Jobs ----

void RingMode::gradient_ready(Time now, std::uint64_t job, std::size_t begin, Effects& out) {
  operation_.ready(job, begin, out);
  finish_operations(now, out);
}

void RingMode::take(Time now, JobDone done, Membership&, Effects& out) {
  operation_.job_done();
  if (done.gradient_samples > 0) {
    const double busy = seconds(done.busy);
    if (busy > 0) agreement_.set_speed(static_cast<double>(done.gradient_samples) / busy);
    learn_from(done.score);
  }
  if (stalls_.operation_seconds() > 0) {
    steps_per_second_ = static_cast<double>(operation_.steps()) / stalls_.operation_seconds();
  }
  if (last_job_) return;
  if (!done.gradient_writable) {
    // With it in the sum everybody's model would be lost. They go on without us.
    stuck_ = true;
    out.events.push_back(
        {.name = "gradient_not_finite", .numbers = {{"step", static_cast<double>(done.step)}}});
    return;
  }
  const Epoch* epoch = agreement_.epoch();
  if (done.state && epoch != nullptr) {
    counts_.states_sent += states_.send(*epoch, done.state, out);
  }
  if (done.gradient_samples > 0) gradient_ready(now, done.number, 0, out);
}

void RingMode::adopt(Time now, ArrivedState state, Job& job, Effects& out) {
  job.become = ReplicaState{.values = std::move(state.values),
                            .step = state.standing.operation,
                            .own_optimizer = options_.local.is_local(state.standing.operation)};
  agreement_.set_standing(state.standing);
  saved_step_ = std::min(saved_step_, state.standing.operation);
  operation_.forget_gradient();
  result_.reset();
  ++counts_.states_adopted;
  out.events.push_back({.name = "state_adopted",
                        .peer = state.from,
                        .numbers = {{"operation", static_cast<double>(state.standing.operation)}}});
  begin_operation(now, out);
}

void RingMode::next_job(Time now, std::vector<Job>& jobs, Effects& out) {
  if (job_running_ || last_job_) return;
  Job job;
  if (auto state = states_.take()) adopt(now, *std::move(state), job, out);
  job.update = std::exchange(result_, nullptr);
  if (job.update) {
    job.update_samples = result_samples_;
    job.update_steps = result_steps_;
  }
  if (states_.owes_any()) job.state = states_.blank(agreement_.standing());
  job.save = leaving_ || is_save_due(step());
  if (leaving_) {
    last_job_ = true;
  } else {
    job.gradient = operation_.order(job_number_ + 1);
  }
  if (!job.become && !job.update && !job.state && !job.save && !job.gradient) return;
  post(std::move(job), jobs);
}

// ---- The course ----

void RingMode::become_leaving(Time now, Effects& out) {
  if (phase_ != Phase::done) {
    end_epoch(now, {}, out);
  } else {
    leave_epoch();
  }
}

void RingMode::tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) {
  if (!started_ || finished_) return;
  set_candidates(now, members);
  if (!wanted_ && !leaving_ && is_barrier_open(now, candidates_.size())) {
    wanted_ = true;
    agreement_.disturb(now, {}, out);
  }
  if (wanted_ && !leaving_) {
    look_for_renewal(now, out);
    watch_for_stalls(now, out);
    agreement_.tick(now, out);
  }
  const Epoch* epoch = agreement_.epoch();
  if (epoch == nullptr) {
    if (epoch_key_ != 0) leave_epoch();
  } else if (epoch->key() != epoch_key_) {
    enter_epoch(now, out);
    finish_operations(now, out);
  }
  if (operation_.is_quiet() && !is_quiet(now)) {
    operation_.set_quiet(false, out);
    finish_operations(now, out);
  }
  next_job(now, jobs, out);
  end_lingering(now);
  if (phase_ == Phase::joining && agreement_.epoch() != nullptr && !states_.is_fetching()) {
    stalls_.begin(now);
    become_training(now, operation_.order().size(), members, out);
  }
  if (phase_ == Phase::done && !leaving_ && step() < course_.steps) {
    enter(now, Phase::training, members, out);
  }
  if (phase_ == Phase::training && step() >= course_.steps) become_done(now, members, out);
  report(members);
}

Time RingMode::deadline() const {
  if (!started_ || finished_ || leaving_) return never;
  Time earliest = std::min(linger_deadline(), wanted_ ? never : barrier_deadline());
  if (!wanted_) return earliest;
  earliest = std::min({earliest, agreement_.deadline(), renewal_.deadline(), states_.deadline()});
  if (operation_.is_quiet()) earliest = std::min(earliest, survey_.quiet_until());
  return std::min(earliest, stalls_.deadline(operation_.is_waiting(), agreement_.patience()));
}

}  // namespace gv
