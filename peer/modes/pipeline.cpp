// The course of a pipeline: agreement, runs, and what ends an epoch.
#include "peer/modes/pipeline.hpp"

#include <algorithm>
#include <utility>

#include "consensus/base/check.hpp"
#include "consensus/base/rng.hpp"

namespace gv {
namespace {

RingAgreement::Options agreement_options(const PipelineOptions& options) {
  RingAgreement::Options agreement = options.agreement;
  agreement.stage_seconds = options.stage_seconds;
  agreement.plan = {.mirrored = options.kind == PipelineKind::chimera,
                    .copies = options.copy_every > 0};
  return agreement;
}

}  // namespace

PipelineMode::PipelineMode(PeerId self, std::uint64_t session, const CourseOptions& course,
                           const PipelineOptions& options)
    : Mode(self, course),
      options_(options),
      agreement_(self, session, agreement_options(options)),
      run_(self, course.run_seed, options),
      states_(self, course.layout_hash, options),
      stalls_(self),
      renewal_(self) {}

PipelineCounts PipelineMode::counts() const {
  PipelineCounts counts = counts_;
  counts.losses = interruptions_.losses();
  counts.states_sent = states_.sent();
  counts.passed_bytes = run_.bytes_sent();
  return counts;
}

double PipelineMode::work_done_here() const {
  double part = 0;
  for (const std::uint32_t stage : run_.own_stages()) {
    part += options_.stage_seconds[stage] / static_cast<double>(run_.replicas()[stage].size());
  }
  return part;
}

void PipelineMode::begin_at(std::uint64_t) {
  if (options_.resumed) {
    carried_.insert(options_.resumed_stages.begin(), options_.resumed_stages.end());
    for (const StageState& state : std::exchange(options_.resumed_copies, {})) {
      states_.keep(state.stage, state.standing, state.values);
    }
    agreement_.set_standing(*options_.resumed);
    tell_claims();
    return;
  }
  // Before the first operation all can make every stage from the seed, and claim it.
  agreement_.set_standing(
      {.operation = 0,
       .samples = 0,
       .history = hash_combine(hash_combine(course_.run_seed, course_.layout_hash), 0)});
  tell_claims();
}

/// What we could go on from.
void PipelineMode::tell_claims() {
  std::vector<StageClaim> claims = states_.claims();
  const Standing& now = agreement_.standing();
  for (const std::uint32_t stage : carried_) {
    claims.push_back({stage, true, now});
    if (complete_) claims.push_back({stage, true, complete_standing_});
  }
  if (claims.empty() && now.operation == 0) claims.push_back({0, false, now});
  if (claims.size() > stage_claims_max) claims.resize(stage_claims_max);
  agreement_.set_claims(std::move(claims));
}

// ---- Epochs ----

void PipelineMode::set_candidates(Time now, Membership& members) {
  std::vector<PeerId> candidates;
  for (const PeerId peer : members.view().peers()) {
    const Member* member = members.find(peer);
    const bool alike =
        peer == self_ || (member != nullptr && member->layout_hash == course_.layout_hash &&
                          member->state != MemberState::dead);
    if (alike) candidates.push_back(peer);
  }
  if (candidates == candidates_) return;
  candidates_ = candidates;
  agreement_.set_candidates(now, std::move(candidates));
}

void PipelineMode::enter_epoch(Time now, Effects& out) {
  leave_epoch();
  const Epoch& epoch = *agreement_.epoch();
  ++counts_.epochs;
  epoch_key_ = epoch.key();
  run_.enter(epoch);
  states_.enter(epoch);
  stalls_.enter_epoch(now);
  renewal_.enter_epoch(now, epoch.order.size());
  // An operation that others have made we make as well: our part of it is complete.
  if (complete_ && complete_standing_ == epoch.standing) {
    ends_due_ = std::exchange(complete_, std::nullopt);
    drawn_due_ = complete_drawn_;
    agreement_.set_standing(epoch.standing);
  } else if (complete_ || run_was_begun_) {
    abandon_due_ = true;
  }
  complete_.reset();
  run_was_begun_ = false;
  hand_overs_due_ = states_.to_copy();
  const bool stays = agreement_.standing() == epoch.standing;
  for (const std::uint32_t stage : run_.own_stages()) {
    if (stays && carried_.contains(stage)) continue;
    if (epoch.standing.operation == 0 || states_.find(stage, epoch.standing)) continue;
    const auto duty = std::ranges::find_if(epoch.duties, [&](const StageDuty& one) {
      return one.carrier == self_ && one.stage == stage;
    });
    states_.fetch(now, stage, duty->source, out);
  }
  preparing_ = true;
}

void PipelineMode::leave_epoch() {
  epoch_key_ = 0;
  preparing_ = false;
  run_was_begun_ = run_was_begun_ || run_.is_begun();
  run_.leave();
  states_.leave();
  stalls_.leave_epoch();
  renewal_.rest();
  completed_.clear();
  say_again_at_ = never;
  hand_overs_due_.clear();
  copies_due_.clear();
  copied_.reset();
  renewal_due_ = false;
}

void PipelineMode::end_epoch(Time now, const std::vector<PeerId>& blamed, Effects& out) {
  agreement_.disturb(now, blamed, out);
  leave_epoch();
}

void PipelineMode::disturb(Time now, const std::vector<PeerId>& blamed, Effects& out) {
  if (!wanted_) return;
  if (agreement_.epoch() != nullptr) {
    interruptions_.become_interrupted(now, run_.order());
    Event ended{.name = "epoch_ended"};
    if (!blamed.empty()) ended.peer = blamed.front();
    out.events.push_back(std::move(ended));
  }
  end_epoch(now, blamed, out);
}

void PipelineMode::look_for_renewal(Time now, Effects& out) {
  if (agreement_.epoch() == nullptr) return;
  if (phase_ == Phase::done) {
    renewal_.rest();
    return;
  }
  renewal_due_ = renewal_due_ || renewal_.newcomers_wait(now, agreement_, candidates_, out) ||
                 renewal_.ballot_is_due(*agreement_.epoch(), candidates_, counts_.operations);
  // Between two runs nothing is lost by it.
  if (renewal_due_ && !preparing_ && !run_.is_begun() && !complete_) end_epoch(now, {}, out);
}

bool PipelineMode::is_waiting() const {
  if (epoch_key_ == 0 || job_running_ || step() >= course_.steps) return false;
  return complete_ || run_.is_waiting() || states_.is_fetching();
}

void PipelineMode::watch_for_stalls(Time now, Effects& out) {
  if (const auto silent = states_.tick(now, out)) disturb(now, {*silent}, out);
  const Epoch* epoch = agreement_.epoch();
  if (epoch == nullptr) return;
  if (!is_waiting()) {
    stalls_.rest(now);
    return;
  }
  std::uint64_t progress = run_.progress() + states_.progress();
  for (const auto& [operation, peers] : completed_) progress += peers.size();
  const auto lost = stalls_.watch(now, *epoch, progress, agreement_.patience(), out);
  if (lost) disturb(now, {lost->begin(), lost->end()}, out);
}

// ---- Runs ----

/// Everything that our stages need is there: they become it with the next job.
void PipelineMode::become_ready(Time now, Effects& out) {
  const Epoch& epoch = *agreement_.epoch();
  preparing_ = false;
  const Standing before = agreement_.standing();
  const bool stays = before == epoch.standing;
  const std::map<std::uint32_t, StageValues> fetched = states_.take();
  StageJob job;
  std::set<std::uint32_t> carries(run_.own_stages().begin(), run_.own_stages().end());
  for (const std::uint32_t stage : carries) {
    if (stays && carried_.contains(stage)) continue;
    const auto came = fetched.find(stage);
    const StageValues values =
        came != fetched.end() ? came->second : states_.find(stage, epoch.standing);
    job.becomes.push_back({stage, values});
    if (came == fetched.end()) continue;
    ++counts_.states_adopted;
    out.events.push_back(
        {.name = "stage_adopted",
         .peer = {},
         .numbers = {{"stage", static_cast<double>(stage)},
                     {"operation", static_cast<double>(epoch.standing.operation)}}});
  }
  for (const std::uint32_t stage : carried_) {
    if (!carries.contains(stage)) job.put_down.push_back(stage);
  }
  if (!stays) {
    if (is_before(epoch.standing, before)) {
      ++counts_.rollbacks;
      counts_.steps_lost += before.operation - epoch.standing.operation;
      out.events.push_back({.name = "went_back",
                            .detail = "a stage was lost with all its carriers",
                            .numbers = {{"from", static_cast<double>(before.operation)},
                                        {"to", static_cast<double>(epoch.standing.operation)}}});
    }
    saved_step_ = std::min(saved_step_, epoch.standing.operation);
    agreement_.set_standing(epoch.standing);
  }
  if (!stays || !job.becomes.empty()) job.moves_to = epoch.standing.operation;
  carried_ = std::move(carries);
  if (!job.is_empty()) becomes_due_ = std::move(job);
  tell_claims();
  plan_copies(epoch.standing);
  begin_run(now, out);
}

void PipelineMode::begin_run(Time now, Effects& out) {
  if (step() >= course_.steps || leaving_) return;
  idle_since_ = now;
  run_.begin(step(), out);
}

/// What neighbours keep of our stages, and we of theirs.
void PipelineMode::plan_copies(const Standing& standing) {
  if (options_.copy_every == 0 || standing.operation == 0) return;
  bool kept = false;
  for (std::uint32_t stage = 0; stage < options_.stages.size(); ++stage) {
    const auto keeper = keeper_of(stage);
    kept |= keeper.has_value();
    const PeerId first = run_.order()[run_.replicas()[stage].front()];
    if (keeper == self_) states_.expect_copy(stage, standing, first);
  }
  if (!kept) return;
  copied_ = standing;
  copies_due_ = run_.own_stages();
}

/// The first carrier of the next stage, or else the first who does not carry this one.
std::optional<PeerId> PipelineMode::keeper_of(std::uint32_t stage) const {
  const auto& carriers = run_.replicas()[stage];
  const auto carries = [&](std::uint32_t rank) {
    return std::ranges::find(carriers, rank) != carriers.end();
  };
  for (const std::uint32_t rank : run_.replicas()[(stage + 1) % run_.replicas().size()]) {
    if (!carries(rank)) return run_.order()[rank];
  }
  for (std::uint32_t rank = 0; rank < run_.order().size(); ++rank) {
    if (!carries(rank)) return run_.order()[rank];
  }
  return std::nullopt;
}

void PipelineMode::say_complete(std::uint64_t operation, PeerId to, bool again,
                                Effects& out) const {
  out.send(to, Complete{agreement_.epoch()->id, operation, again});
}

/// Our part is done, and so are the copies from before.
void PipelineMode::complete_run(Time now, Effects& out) {
  if (!run_.counts_once()) {
    out.events.push_back({.name = "sum_refused",
                          .detail = "not every micro-batch is in every stage's gradient once"});
    disturb(now, {}, out);
    return;
  }
  complete_drawn_ = run_.drawn();
  complete_ = run_.finish();
  complete_standing_ = after_operation(agreement_.standing(), epoch_key_,
                                       options_.micro_batches * options_.micro_batch);
  run_was_begun_ = true;
  tell_claims();
  completed_[step()].insert(self_);
  say_again_at_ = now;
}

void PipelineMode::commit(Time now, Effects& out) {
  const Standing before = agreement_.standing();
  ends_due_ = std::exchange(complete_, std::nullopt);
  drawn_due_ = complete_drawn_;
  run_was_begun_ = false;
  agreement_.set_standing(complete_standing_);
  completed_.erase(before.operation);
  say_again_at_ = never;
  if (copied_) states_.settle(*copied_);
  ++counts_.operations;
  stalls_.operation_done(now, counts_.operations > 1 && !interruptions_.is_interrupted());
  renewal_.operation_done(now);
  agreement_.set_operation_seconds(stalls_.operation_seconds());
  if (stalls_.operation_seconds() > 0) {
    steps_per_second_ = 1 / stalls_.operation_seconds();
  }
  interruptions_.become_resumed(now, run_.order(), before.operation, out);
  if (options_.copy_every > 0 && step() % options_.copy_every == 0)
    plan_copies(agreement_.standing());
  tell_claims();
  if (renewal_due_) {
    end_epoch(now, {}, out);
  } else {
    begin_run(now, out);
  }
}

void PipelineMode::advance(Time now, Effects& out) {
  if (agreement_.epoch() == nullptr) return;
  // Until the job under way is done, our stages are not what an epoch begins with.
  if (preparing_ && !states_.is_fetching() && !job_running_) become_ready(now, out);
  while (agreement_.epoch() != nullptr) {
    if (run_.is_complete() && !states_.expects_copies()) complete_run(now, out);
    if (!complete_ || agreement_.epoch() == nullptr) return;
    if (now >= say_again_at_) {
      say_again_at_ = now + agreement_.patience();
      for (const PeerId peer : run_.order()) {
        if (peer != self_) say_complete(step(), peer, false, out);
      }
    }
    if (!is_agreed()) return;
    commit(now, out);
  }
}

/// Everybody's part of the operation is complete.
bool PipelineMode::is_agreed() const {
  const auto said = completed_.find(step());
  return said != completed_.end() && std::ranges::all_of(run_.order(), [&](PeerId peer) {
           return said->second.contains(peer);
         });
}

// ---- What comes ----

void PipelineMode::answer(PeerId from, Effects& out) {
  const Epoch* epoch = agreement_.epoch();
  out.send(from, Here{.ballot = epoch != nullptr ? epoch->id : agreement_.promised(),
                      .operation = agreement_.standing().operation,
                      .busy = epoch != nullptr && (job_running_ || states_.is_fetching())});
}

void PipelineMode::receive(Time now, PeerId from, const Message& message, Membership& members,
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
    states_.receive(from, *fetch, out);
  } else if (const auto* complete = std::get_if<Complete>(&message)) {
    if (epoch == nullptr || complete->ballot != epoch->id || !epoch->contains(from)) return;
    if (complete->operation >= step() && complete->operation <= step() + 1) {
      completed_[complete->operation].insert(from);
    } else if (complete->operation < step() && !complete->again) {
      say_complete(complete->operation, from, true, out);
    }
  } else if (!leaving_) {
    if (std::holds_alternative<Propose>(message)) wanted_ = true;
    agreement_.receive(now, from, message, out);
    const bool ended = epoch != nullptr && agreement_.epoch() == nullptr;
    if (ended) interruptions_.become_interrupted(now, run_.order());
  }
}

void PipelineMode::receive_block(Time now, PeerId from, const Block& block, Effects& out) {
  if (!states_.receive(now, from, block)) run_.receive(from, block, out);
}

void PipelineMode::lane_lost(Time now, PeerId peer, Effects& out) {
  // While all stand still, whoever is lost is not waited for.
  const bool concerns = agreement_.epoch() == nullptr || states_.fetches_from(peer) ||
                        (phase_ != Phase::done && run_.involves(peer));
  if (concerns) disturb(now, {peer}, out);
}

void PipelineMode::lane_refused(Time now, PeerId peer, Effects& out) { lane_lost(now, peer, out); }

void PipelineMode::peer_gone(Time now, PeerId peer, Effects& out) {
  std::erase(candidates_, peer);
  agreement_.set_candidates(now, candidates_);
  const Epoch* epoch = agreement_.epoch();
  const bool concerns = epoch == nullptr || (epoch->contains(peer) && phase_ != Phase::done);
  if (concerns) disturb(now, {peer}, out);
}

// ---- Jobs ----

void PipelineMode::take(Time now, JobDone done, Membership&, Effects& out) {
  counts_.computing_s += seconds(done.busy);
  idle_since_ = now;
  if (done.score.samples > 0) learn_from(done.score);
  if (last_job_ || !done.stages) return;
  if (!done.gradient_writable) {
    // With it in the update everybody's stage would be lost. They go on without us.
    stuck_ = true;
    out.events.push_back(
        {.name = "gradient_not_finite", .numbers = {{"step", static_cast<double>(done.step)}}});
    return;
  }
  const Epoch* epoch = agreement_.epoch();
  const bool is_ours = epoch != nullptr && epoch_key_ != 0 && job_epoch_ == epoch_key_;
  if (is_ours) {
    for (const StageCopy& copy : done.stages->hand_overs) {
      // Kept as well: until whoever gets it has it, nobody else may.
      states_.keep(copy.stage, epoch->standing, copy.values);
      states_.hand_over(copy.stage, copy.values, out);
    }
    if (!done.stages->hand_overs.empty()) tell_claims();
    for (const StageCopy& copy : done.stages->copies) keep_copy(copy, out);
  }
  const std::optional<StageOrder>& order = done.stages->order;
  if (!order) return;
  measure(order->what, seconds(done.busy));
  if (is_ours) run_.done(*order, out);
}

/// Our own state at a copying point, which our neighbour gets as well.
void PipelineMode::keep_copy(const StageCopy& copy, Effects& out) {
  states_.keep(copy.stage, job_standing_, copy.values);
  tell_claims();
  const auto keeper = keeper_of(copy.stage);
  const PeerId first = run_.order()[run_.replicas()[copy.stage].front()];
  if (!keeper || first != self_) return;
  states_.send_copy(copy.stage, job_standing_.operation, copy.values, *keeper, out);
}

/// How fast we are: what passes should take by the plan over what they take, smoothed over about a
/// hundred of them.
void PipelineMode::measure(const PipelineOperation& what, double busy_s) {
  constexpr double keep = 0.99;
  work_s_ = keep * work_s_ + part_of_stage(what.action) * options_.stage_seconds[what.stage];
  busy_s_ = keep * busy_s_ + busy_s;
  if (busy_s_ > 0) agreement_.set_speed(work_s_ / busy_s_);
}

void PipelineMode::next_job(Time now, std::vector<Job>& jobs) {
  if (job_running_ || last_job_) return;
  StageJob work;
  work.abandons = std::exchange(abandon_due_, false);
  if (ends_due_) {
    work.ends = *std::exchange(ends_due_, std::nullopt);
    work.drawn = drawn_due_;
  }
  for (const std::uint32_t stage : std::exchange(hand_overs_due_, {})) {
    work.hand_overs.push_back({stage, states_.blank(stage)});
  }
  if (becomes_due_) {
    work.moves_to = becomes_due_->moves_to;
    work.becomes = std::move(becomes_due_->becomes);
    work.put_down = std::move(becomes_due_->put_down);
    becomes_due_.reset();
  }
  for (const std::uint32_t stage : std::exchange(copies_due_, {})) {
    work.copies.push_back({stage, states_.blank(stage)});
  }
  Job job;
  // All save at the same steps, so that there is a standing of which every stage is on disk.
  const bool ends_run = !work.ends.empty();
  const bool is_due = step() >= course_.steps ||
                      (course_.save_every_steps > 0 && step() % course_.save_every_steps == 0);
  job.save = leaving_ || (ends_run && is_due && step() > saved_step_);
  if (leaving_) {
    last_job_ = true;
  } else if (epoch_key_ != 0 && !preparing_) {
    work.order = run_.next();
    if (work.order) counts_.waiting_s += seconds(now - idle_since_);
  }
  if (work.is_empty() && !job.save) return;
  job_epoch_ = epoch_key_;
  job_standing_ = work.standing = agreement_.standing();
  job.stages = std::move(work);
  post(std::move(job), jobs);
}

// ---- The course ----

void PipelineMode::become_leaving(Time now, Effects& out) {
  if (phase_ != Phase::done) {
    end_epoch(now, {}, out);
  } else {
    leave_epoch();
  }
}

void PipelineMode::tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) {
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
  } else if (!leaving_ && epoch->key() != epoch_key_) {
    enter_epoch(now, out);
  }
  if (!leaving_) advance(now, out);
  next_job(now, jobs);
  end_lingering(now);
  if (phase_ == Phase::joining && epoch_key_ != 0 && !preparing_) {
    stalls_.begin(now);
    become_training(now, run_.order().size(), members, out);
  }
  if (phase_ == Phase::done && !leaving_ && step() < course_.steps) {
    enter(now, Phase::training, members, out);
  }
  if (phase_ == Phase::training && step() >= course_.steps) become_done(now, members, out);
  report(members);
}

Time PipelineMode::deadline() const {
  if (!started_ || finished_ || leaving_) return never;
  Time earliest = std::min(linger_deadline(), wanted_ ? never : barrier_deadline());
  if (!wanted_) return earliest;
  earliest = std::min({earliest, agreement_.deadline(), states_.deadline()});
  if (!renewal_due_) earliest = std::min(earliest, renewal_.deadline());
  if (epoch_key_ != 0) earliest = std::min(earliest, say_again_at_);
  return std::min(earliest, stalls_.deadline(is_waiting(), agreement_.patience()));
}

}  // namespace gv
