// Carries out pipeline runs, agrees with the other peers before each update, and requests jobs.
#include "peer/modes/pipeline.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "base/check.hpp"
#include "base/rng.hpp"
#include "peer/modes/divergence.hpp"

namespace gv {

PipelineMode::PipelineMode(PeerId self, std::uint64_t session, const CourseOptions& course,
                           const PipelineOptions& options, const Signer& signer, const Rng& draws)
    : self_(self),
      course_(self, course),
      work_(self, course.work),
      generations_(self, session, options.agreement, signer),
      planner_(options.stage_seconds, options.micro_batches * options.micro_batch,
               options.planning()),
      options_(options),
      parts_(options.parts()),
      run_(self, course.run_seed, options),
      early_(pipeline_held_max),
      states_(self, course.layout_hash, options, draws) {
  // Early blocks belong to a generation in which we may get any stages, so there is room for all.
  std::size_t held_max = pipeline_held_max;
  for (std::uint32_t stage = 0; stage < options.stages.size(); ++stage) {
    held_max += options.sent_bytes_max(stage);
  }
  early_ = EarlyBlocks(held_max);
  if (options.plan != StagePlanKind::automatic) return;
  std::size_t most = 0;
  for (const StageSize& stage : options.stages) most = std::max(most, stage.forward);
  survey_.emplace(self, most);
}

double PipelineMode::work_done_here() const {
  double part = 0;
  for (const std::uint32_t stage : run_.own_stages()) {
    part += options_.stage_seconds[stage] / static_cast<double>(run_.replicas()[stage].size());
  }
  return part;
}

std::set<std::uint32_t> PipelineMode::stages() const {
  std::set<std::uint32_t> stages;
  for (const std::uint32_t part : carried_) stages.insert(parts_.stage_of(part));
  return stages;
}

void PipelineMode::start(Time now, std::uint64_t step, bool joins_others) {
  course_.start(now, step, joins_others);
  work_.begin(now);
  if (options_.resumed) {
    carried_.insert(options_.resumed_parts.begin(), options_.resumed_parts.end());
    for (const StageState& state : std::exchange(options_.resumed_copies, {})) {
      states_.keep(state.part, state.version, state.values);
    }
  }
  generations_.agreement().set_version(options_.resumed.value_or(beginning()));
  follow_budget(now);
  tell_holdings();
}

/// Updates the used part of the swarm's budget from our version, if the swarm has a budget.
void PipelineMode::follow_budget(Time now) {
  end_.follow_budget(now, options_.micro_batches * options_.micro_batch, work_, course_,
                     generations_.agreement().version());
}

/// The version of the model that all peers build from the run's seed.
ModelVersion PipelineMode::beginning() const {
  return {.step = 0,
          .samples = 0,
          .lineage = hash_combine(
              hash_combine(course_.options().run_seed, course_.options().layout_hash), 0)};
}

/// Reports to the agreement from which stages and versions we could continue.
void PipelineMode::tell_holdings() {
  std::vector<StageHolding> holdings;
  const ModelVersion& now = generations_.agreement().version();
  // Every peer can make every stage from the seed. But once a run after a copying point is
  // finished, all stages have been copied, and no ballot goes back to the seed.
  const bool has_seed = has_left_seed_ || now.step <= options_.copy_every;
  if (has_seed) holdings.push_back({0, false, beginning()});
  std::ranges::copy(states_.holdings(), std::back_inserter(holdings));
  for (const std::uint32_t part : carried_) {
    holdings.push_back({part, true, now});
    if (complete_) holdings.push_back({part, true, complete_version_});
  }
  holdings = parts_.packed(std::move(holdings));
  // If there are too many holdings for a message, copies are left out first.
  std::stable_partition(holdings.begin(), holdings.end(),
                        [](const StageHolding& holding) { return holding.carried; });
  if (holdings.size() > stage_holdings_max) holdings.resize(stage_holdings_max);
  generations_.agreement().set_holdings(std::move(holdings));
}

void PipelineMode::tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) {
  if (!course_.is_running()) return;
  generations_.set_candidates(now, course_.options().layout_hash, members);
  follow_pins(members);
  generations_.join(now, course_, out);
  end_.follow(now, course_, members, work_, generations_, out, &panel_);
  planner_.set_view(end_.view(), generations_.candidates().size());
  planner_.believe(believed(now));
  for (int calls = 0; calls < 3 && !follow_generation(now, out); ++calls) {
  }
  next_job(now, jobs);
  generations_.move_on(now, !preparing_, *this, course_, members, out);
}

Time PipelineMode::deadline() const {
  if (handing_over_) return std::min(generations_.agreement().deadline(), hand_over_until_);
  return generations_.deadline(course_, is_waiting(), std::min(states_.deadline(), say_again_at_));
}

// ---- Generations ----

/// Tells the planner the ids of pinned peers, which the options know only by name.
void PipelineMode::follow_pins(const Membership& members) {
  if (options_.pins.empty()) return;
  std::map<PeerId, std::uint32_t> pins;
  const auto look_at = [&](const Member& member) {
    const auto pin = options_.pins.find(member.name);
    if (pin != options_.pins.end()) pins.emplace(member.id, pin->second);
  };
  look_at(members.self());
  members.for_each_other(look_at);
  planner_.pin(std::move(pins));
}

/// Handles ballots and continues runs. Returns false if this ends the generation. The caller must
/// then call this function again, because a ballot may be due immediately. A pass that arrived
/// early can have invalid values and end the generation, but hardly twice in a row, so a few calls
/// are enough.
bool PipelineMode::follow_generation(Time now, Effects& out) {
  if (generations_.takes_part(course_)) look_after_generation(now, out);
  end_handing_over(now, out);
  const Generations::Change change = generations_.follow(now, course_);
  if (change.left) abandon();
  if (change.entered != nullptr) begin_generation(now, *change.entered, out);
  const bool is_in_one = generations_.current() != nullptr;
  go_on(now, out);
  return !is_in_one || generations_.current() != nullptr;
}

/// Ends the generation if a better one is due or peers are lost, and handles ballots.
void PipelineMode::look_after_generation(Time now, Effects& out) {
  const bool between_runs = !preparing_ && !run_.is_begun() && !complete_;
  if (generations_.is_rebalance_due(now, course_.phase(), true, out) && between_runs) {
    end_generation(now, out);
  }
  give_up_odd(now, out);
  if (const auto silent = states_.tick(now, out)) disturb(now, {*silent}, out);
  const auto lost = generations_.find_lost(now, is_waiting(), progress(), out);
  if (lost) disturb(now, *lost, out);
  generations_.agree(now, planner_, out);
}

void PipelineMode::end_generation(Time now, Effects& out) {
  generations_.end(now, {}, out);
  abandon();
}

/// Ends the generation for all peers because something is wrong.
void PipelineMode::disturb(Time now, const std::vector<PeerId>& blamed, Effects& out) {
  if (generations_.disturb(now, blamed, out)) abandon();
}

void PipelineMode::peer_gone(Time now, PeerId peer, Effects& out) {
  // A source that is leaving is not in the generation, but we still need it.
  const bool is_source = states_.fetches_from(peer);
  if (generations_.is_disturbed_by(now, peer, course_.phase()) || is_source) {
    disturb(now, {peer}, out);
  }
}

/// The decided generation, with an assignment for each part.
Generation PipelineMode::by_part(Generation decided) const {
  decided.assignments = parts_.unpacked(decided.assignments);
  return decided;
}

void PipelineMode::begin_generation(Time now, const Generation& decided, Effects& out) {
  const Generation generation = by_part(decided);
  run_.enter(generation);
  choose_panel();
  end_.enter(generation, work_, generations_.agreement());
  states_.enter(generation);
  // Some schedules change stages during a run, so copies for reviews must be made before the first
  // run.
  if (!is_synchronous(options_.kind)) states_.prepare_reviews();
  states_.begin_audit(out);
  begun_in_generation_ = 0;
  measured_s_ = 0;
  planned_speed_ = pace_.speed();
  pace_.carry({run_.own_stages().begin(), run_.own_stages().end()});
  if (survey_) survey_->begin(generation.order, generations_.key());
  end_last_run(generation.version);
  const bool stays = generations_.agreement().version() == generation.version;
  for (const std::uint32_t part : run_.own_parts()) {
    if (stays && carried_.contains(part)) continue;
    if (generation.version.step == 0 || states_.find(part, generation.version)) continue;
    const auto assignment = std::ranges::find_if(
        generation.assignments,
        [&](const StageAssignment& one) { return one.carrier == self_ && one.stage == part; });
    states_.fetch(now, part, assignment->source, out);
  }
  if (!stays) keep_until_run();
  preparing_ = true;
  for (const EarlyBlocks::Held& piece : early_.take()) {
    receive_block(now, piece.from, piece.block, out);
  }
}

/// Ends our previous run. All peers continue from `version`; some of them download stages from us.
void PipelineMode::end_last_run(const ModelVersion& version) {
  // If other peers have finished the run, we also finish it, because our part is complete.
  if (complete_ && complete_version_ == version) {
    become_made();
  } else if (complete_ || run_was_begun_) {
    // If the previous run's end has yet to be applied, this run has computed nothing to abandon.
    due_.abandons = !due_.end;
  }
  complete_.reset();
  run_was_begun_ = false;
  // Report now, because the next ballot may come before we are ready for this generation. By then
  // we can no longer finish a run that we gave up, or return to the state before a run that we
  // finished.
  tell_holdings();
  plan_exports();
}

void PipelineMode::abandon() {
  preparing_ = false;
  run_was_begun_ = run_was_begun_ || run_.is_begun();
  run_.leave();
  states_.leave();
  if (survey_) survey_->end();
  completed_.clear();
  say_again_at_ = never;
  due_.exports.clear();
  due_.copies.clear();
  copied_.reset();
}

bool PipelineMode::is_waiting() const {
  if (!generations_.is_in_one() || course_.jobs_under_way() > 0 || step() >= course_.steps())
    return false;
  return complete_ || run_.is_waiting() || states_.is_fetching();
}

std::uint64_t PipelineMode::progress() const {
  std::uint64_t progress = run_.progress() + states_.progress();
  for (const auto& [operation, peers] : completed_) progress += peers.size();
  return progress;
}

// ---- Runs ----

/// Called when the states of all our stages have arrived. The next job loads them.
void PipelineMode::become_ready(Time now, Effects& out) {
  const Generation& generation = *generations_.current();
  preparing_ = false;
  const ModelVersion before = generations_.agreement().version();
  const bool stays = before == generation.version;
  const std::map<std::uint32_t, StageValues> fetched = states_.take();
  const std::vector<std::uint32_t> own = run_.own_parts();
  std::set<std::uint32_t> carries(own.begin(), own.end());
  std::set<std::uint32_t> adopted;
  for (const std::uint32_t part : carries) {
    if (stays && carried_.contains(part)) continue;
    const auto came = fetched.find(part);
    const StageValues values =
        came != fetched.end() ? came->second : states_.find(part, generation.version);
    due_.loads.push_back({part, values});
    if (came != fetched.end()) adopted.insert(parts_.stage_of(part));
  }
  for (const std::uint32_t stage : adopted) {
    ++counts_.states_adopted;
    out.tell(StageAdopted{.stage = stage, .step = generation.version.step});
  }
  if (!stays || carries != carried_) {
    for (const std::uint32_t stage : run_.own_stages()) {
      due_.held.push_back({stage, run_.own_slices(stage)});
    }
  }
  // A source that is leaving waits for this message before it goes.
  for (const StageAssignment& assignment : generation.assignments) {
    if (assignment.carrier != self_ || generation.contains(assignment.source)) continue;
    out.send(assignment.source,
             StatusReply{.ballot = generation.id, .step = generation.version.step});
  }
  carried_.merge(std::exchange(given_up_, {}));
  for (const std::uint32_t part : carried_) {
    if (!parts_.is_slice(part) && !carries.contains(part)) due_.releases.push_back(part);
  }
  if (!stays) {
    has_left_seed_ = has_left_seed_ || before.step <= options_.copy_every;
    if (is_before(generation.version, before)) {
      ++counts_.rollbacks;
      counts_.steps_lost += before.step - generation.version.step;
      out.tell(RolledBack{.from = before.step, .to = generation.version.step});
    }
    course_.go_back_to(generation.version.step);
    generations_.agreement().set_version(generation.version);
  }
  follow_budget(now);
  if (!stays || !due_.loads.empty()) due_.move = {generation.version.step};
  carried_ = std::move(carries);
  plan_copies(generation.version);
  tell_holdings();
  begin_run(now, out);
}

void PipelineMode::begin_run(Time now, Effects& out) {
  if (step() >= course_.steps() || course_.is_leaving()) return;
  idle_since_ = run_began_at_ = now;
  if (!first_run_) first_run_ = {now, step()};
  const std::uint64_t begun = begun_in_generation_++;
  if (survey_) {
    survey_->operation_began(now, begun, from_seconds(generations_.operation_seconds()), out);
  }
  run_.begin(step(), is_test_due(), out);
}

void PipelineMode::say_complete(std::uint64_t operation, PeerId to, bool again,
                                Effects& out) const {
  out.send(to, Complete{generations_.current()->id, operation, again});
}

/// Called when our part of the run is complete and the copies made before the run have arrived.
void PipelineMode::complete_run(Time now, Effects& out) {
  if (!run_.counts_once()) {
    out.tell(SumRefused{.why = "not every micro-batch is in every stage's gradient once"});
    disturb(now, {}, out);
    return;
  }
  const std::size_t drawn = run_.drawn();
  complete_ = {run_.finish(), drawn};
  complete_version_ = after_operation(generations_.agreement().version(), generations_.key(),
                                      options_.micro_batches * options_.micro_batch);
  run_was_begun_ = true;
  tell_holdings();
  completed_[step()].insert(self_);
  say_again_at_ = now;
}

/// Counts the run as finished. The next job applies the end of the run.
void PipelineMode::become_made() {
  due_.end = std::exchange(complete_, std::nullopt);
  if (due_.end->ends.empty()) due_.end.reset();  // We carry no stage.
  run_was_begun_ = false;
  has_left_seed_ = false;
  generations_.agreement().set_version(complete_version_);
}

void PipelineMode::commit(Time now, Effects& out) {
  const std::uint64_t operation = step();
  become_made();
  const auto samples = static_cast<double>(options_.micro_batches * options_.micro_batch);
  work_.count_samples(now, static_cast<std::uint64_t>(std::llround(samples * work_done_here())));
  follow_budget(now);
  completed_.erase(operation);
  say_again_at_ = never;
  // Every peer has finished this run, so the states handed over before it have arrived as well.
  states_.settle(options_.copy_every == 0 ? generations_.agreement().version()
                                          : copied_.value_or(ModelVersion()));
  measure_step(now);
  generations_.operation_done(now, operation, 1, out);
  const bool is_point = options_.copy_every > 0 && step() % options_.copy_every == 0;
  if (is_point) plan_copies(generations_.agreement().version());
  tell_holdings();
  if (generations_.is_rebalance_due()) {
    end_generation(now, out);
  } else {
    begin_run(now, out);
  }
}

void PipelineMode::go_on(Time now, Effects& out) {
  if (handing_over_) hand_over();
  if (course_.is_leaving() || generations_.current() == nullptr) return;
  if (may_become_ready()) become_ready(now, out);
  if (const auto sender = run_.unsound_from()) {
    out.tell(
        SumRefused{.why = to_string(*sender) + " sent values that are not finite or too large"});
    if (generations_.refuse(now, *sender, not_finite, out)) disturb(now, {*sender}, out);
    return;
  }
  while (generations_.current() != nullptr) {
    // A peer that has no part in runs completes each run at once. But a job may end only one run,
    // and may not both load states and end the run that begins with them.
    const bool may_complete = !due_.end && !due_.move && !states_.expects_copies();
    if (may_complete && run_.is_complete()) complete_run(now, out);
    if (!complete_ || generations_.current() == nullptr) return;
    if (now >= say_again_at_) {
      say_again_at_ = now + generations_.agreement().patience();
      for (const PeerId peer : run_.order()) {
        if (peer != self_) say_complete(step(), peer, false, out);
      }
    }
    if (!is_agreed()) return;
    commit(now, out);
  }
}

/// True if all peers have reported that their parts of the run are complete.
bool PipelineMode::is_agreed() const {
  const auto said = completed_.find(step());
  return said != completed_.end() && std::ranges::all_of(run_.order(), [&](PeerId peer) {
           return said->second.contains(peer);
         });
}

// ---- Messages, blocks and lanes ----

void PipelineMode::receive(Time now, PeerId from, const Message& message, Membership& members,
                           Effects& out) {
  if (!course_.is_started() || !members.view().contains(from)) return;
  const auto* here = std::get_if<StatusReply>(&message);
  if (here != nullptr && handing_over_) taken_over(from, *here);
  const bool busy = course_.jobs_under_way() > 0 || states_.is_fetching();
  const bool votes = !course_.is_leaving() || handing_over_;
  planner_.believe(believed(now));
  switch (generations_.receive(now, from, message, busy, votes, planner_, out)) {
    case Generations::Heard::other:
      receive_own(now, from, message, out);
      break;
    case Generations::Heard::disturbed:
      disturb(now, {}, out);
      break;
    case Generations::Heard::handled:
      break;
  }
}

void PipelineMode::receive_own(Time now, PeerId from, const Message& message, Effects& out) {
  const Generation* generation = generations_.current();
  if (const auto* probed = std::get_if<ProbeAck>(&message)) {
    if (!survey_) return;
    survey_->receive(now, from, *probed, out);
    generations_.agreement().set_links(survey_->reports());
  } else if (const TransferId* transfer = transfer_of(message)) {
    if (transfer->kind != TransferKind::state) return;
    states_.receive(now, from, message, out);
    // After the generation's first run, every peer has its states, and ours have changed. So a
    // request that arrives later is a delayed duplicate.
    const bool has_them =
        generation != nullptr && generations_.agreement().version() == generation->version;
    if (has_them) plan_exports();
  } else if (const auto* audit = std::get_if<Audit>(&message)) {
    states_.receive(from, *audit, out);
  } else if (const auto* complete = std::get_if<Complete>(&message)) {
    if (generation == nullptr || complete->ballot != generation->id || !generation->contains(from))
      return;
    // Until we have loaded the states with which this generation begins, our step is not this
    // generation's.
    const bool stands_in_it = generations_.is_in_one() && !preparing_;
    const std::uint64_t at = stands_in_it ? step() : generation->version.step;
    if (complete->step >= at && complete->step <= at + 1) {
      completed_[complete->step].insert(from);
    } else if (complete->step < at && !complete->again) {
      say_complete(complete->step, from, true, out);
    }
  }
}

void PipelineMode::receive_block(Time now, PeerId from, const Block& block, Effects& out) {
  switch (block.id.kind) {
    case TransferKind::state:  // Comes only to a peer that requested the state in a generation.
      states_.receive(now, from, block, out);
      return;
    case TransferKind::copy:
      if (!copies_from(from, block.id.stage) || !states_.receive(now, from, block, out)) break;
      tell_holdings();
      return;
    case TransferKind::piece:
    case TransferKind::pass:
    case TransferKind::mixing:
      if (run_.receive(from, block, out)) return;
      break;
    case TransferKind::probe:
      if (survey_) survey_->receive_block(from, block, out);
      return;
    default:
      return;  // The block belongs to another mode.
  }
  // The sender may already be in a new generation that we have not entered yet. In that case, the
  // block may belong to that generation.
  const std::uint64_t next = key_of(generations_.agreement().promised());
  if (generations_.is_in_one() || block.id.session != next) return;
  if (std::exchange(early_of_, next) != next) early_.take();
  early_.keep(from, block);
}

void PipelineMode::lane_lost(Time now, PeerId peer, Effects& out) {
  if (survey_) {
    survey_->lane_lost(peer);
    generations_.agreement().set_links(survey_->reports());
  }
  // Between generations every lost peer matters, because the ballot would wait for it.
  const bool concerns = generations_.current() == nullptr || states_.fetches_from(peer) ||
                        (course_.phase() != Phase::done && run_.involves(peer));
  if (concerns) disturb(now, {peer}, out);
}

void PipelineMode::lane_refused(Time now, PeerId peer, Effects& out) {
  if (survey_) survey_->lane_refused(peer);
  lane_lost(now, peer, out);
}

// ---- Jobs ----

void PipelineMode::complete(Time now, JobDone done, Membership& members, Effects& out) {
  course_.job_done(done);
  tell_verdict(done, members, out);
  counts_.computing_s += seconds(done.busy);
  idle_since_ = now;
  if (done.score.samples > 0) course_.learn_from(done.score);
  if (course_.is_last_job_asked() || course_.has_failed()) return;
  const auto* part = first_of<result::StagePart>(done.results);
  if (part != nullptr && !part->is_sound) {
    // This part would destroy every peer's model, so we leave and the others continue without us.
    course_.fail();
    out.tell(first_of<task::SendStage>(done.job.tasks) != nullptr
                 ? mixing_divergence(done.step, options_.rule)
                 : gradient_divergence(done.step, {}));
    return;
  }
  const Generation* generation = served();
  const bool is_ours = generation != nullptr && job_generation_ == generation->key();
  const auto& tasks = done.job.tasks;
  if (const auto* exported = first_of<task::ExportStages>(tasks); is_ours && exported != nullptr) {
    keep_exports(*exported, done.job.version, out);
  }
  if (const auto* copied = first_of<task::CopyStages>(tasks); is_ours && copied != nullptr) {
    for (const StageCopy& copy : copied->copies) keep_copy(copy, done.job.version, out);
  }
  if (part == nullptr) return;
  const auto* pass = first_of<task::StagePass>(tasks);
  if (!is_ours) return;
  if (pass != nullptr && !pass->what.tests) measure(*pass, seconds(done.busy));
  run_.done(done.job, out);
}

void PipelineMode::next_job(Time now, std::vector<Job>& jobs) {
  while (!course_.is_last_job_asked() && (course_.jobs_under_way() == 0 || may_ask_ahead())) {
    if (!ask(now, jobs)) return;
  }
}

/// True if we may request a job while another one runs, so that the worker need not wait. Only
/// passes are requested ahead; everything else is decided when no job is under way.
bool PipelineMode::may_ask_ahead() const {
  return course_.jobs_under_way() == 1 && job_generation_ == generations_.key() &&
         generations_.is_in_one() && !preparing_ && !course_.is_leaving() && due_.is_empty();
}

/// Requests the next job. Returns false if there is nothing to do.
bool PipelineMode::ask(Time now, std::vector<Job>& jobs) {
  const bool is_last = course_.is_leaving() && !handing_over_;
  // All peers save at the same steps, so their checkpoints together contain all stages at one
  // version.
  const bool ends_run = due_.end.has_value();
  const bool is_due =
      step() >= course_.steps() ||
      (course_.options().save_every_steps > 0 && step() % course_.options().save_every_steps == 0);
  const bool saves = is_last || (ends_run && is_due && step() > course_.saved_step());
  // A checkpoint must not contain half a run.
  if (is_last && (complete_ || run_was_begun_)) due_.abandons = !due_.end;
  Job job = std::exchange(due_, {}).job();
  if (is_last) {
    course_.make_next_job_last();
  } else if (generations_.is_in_one() && !preparing_) {
    if (auto task = run_.next()) {
      job.add(*std::move(task));
      add_measurement(job);
      if (course_.jobs_under_way() == 0) counts_.waiting_s += seconds(now - idle_since_);
    }
  }
  if (saves && work_.is_on()) {
    const bool is_end = step() >= course_.steps();
    job.add(task::FollowSwarm{work_.progress(now), 1, end_.note(now, is_end, work_)});
  }
  if (saves) job.add(task::Save{});
  if (job.tasks.empty()) return false;
  job_generation_ = served() != nullptr ? served()->key() : 0;
  job.version = generations_.agreement().version();
  course_.post(std::move(job), jobs);
  return true;
}

}  // namespace gv
