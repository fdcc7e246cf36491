// Runs the collectives of mode `allreduce`, and the jobs they need.
#include "peer/modes/allreduce.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "base/rng.hpp"
#include "peer/modes/divergence.hpp"

namespace gv {
namespace {

/// The array length assumed for planning, because the real lengths are unknown. At this length both
/// latency and bandwidth matter.
constexpr std::size_t usual_array = 1 << 18;

ReplicaPlanner::Options planner_options(const CourseOptions& course,
                                        const AllReduceOptions& options) {
  const auto compressor = options.compressor(course.elements);
  return {.batch = options.batch,
          .batch_max = std::max(options.batch, options.batch_max),
          .batch_min = options.batch_min,
          .growth_max = course.work.growth.most(),
          .elements = options.averages_arrays ? usual_array : compressor->longest(),
          .algorithm = compressor->wire().is_plain() ? options.algorithm : ReduceAlgorithm::ring,
          .names_senders = options.norm_cap > 0};
}

/// Bounds of the wait between a sum and an early end of its generation. If the generation ended
/// before the other peers had the sum, they would have to download our model.
constexpr Duration settle_min = std::chrono::milliseconds(5);
constexpr Duration settle_max = std::chrono::milliseconds(250);

/// Returns a sum's size in floats. Counts a sparse sum as dense, because it may become dense.
std::size_t carried_as_floats(const CourseOptions& course, const AllReduceOptions& options) {
  if (options.averages_arrays) return usual_array;
  const auto compressor = options.compressor(course.elements);
  return encoded_size(compressor->wire().codec, compressor->longest()) / sizeof(float);
}

/// Returns "host" for "host:port".
std::string_view host_of(std::string_view address) { return address.substr(0, address.rfind(':')); }

}  // namespace

AllReduceMode::AllReduceMode(PeerId self, std::uint64_t session, const CourseOptions& course,
                             const AllReduceOptions& options, const Signer& signer,
                             const Rng& draws)
    : self_(self),
      session_(session),
      course_(self, course),
      work_(self, without_ledger(course.work)),
      generations_(self, session, options.agreement, signer),
      planner_(planner_options(course, options)),
      options_(options),
      operation_(self, course.elements, options),
      survey_(self, carried_as_floats(course, options)),
      draws_(draws),
      states_(transfer_of(options.state_elements)) {}

/// Makes an object that transfers states of `elements` floats.
StateTransfer AllReduceMode::transfer_of(std::size_t elements) const {
  return {self_,
          {.layout_hash = course_.options().layout_hash,
           .elements = elements,
           .compared = elements,
           .memory = options_.memory},
          draws_};
}

void AllReduceMode::start(Time now, std::uint64_t step, bool joins_others) {
  course_.start(now, step, joins_others);
  work_.begin(now);
  if (ends_together()) generations_.unite_at_end();
  // Peers with equal versions must have models with equal bits. So the lineage contains the
  // fingerprint of the first model or, if we resume from a checkpoint, the session of this process.
  // Limit the samples, because other peers refuse a version with more samples than its steps can
  // have.
  const CourseOptions& course = course_.options();
  const std::uint64_t begun_with = step == 0 ? course.first_model : hash_combine(step, session_);
  ModelVersion version = course.version.value_or(
      ModelVersion{.step = step,
                   .samples = planner_.samples_at(step, work_.options().resumed.samples),
                   .lineage = hash_combine(hash_combine(course.run_seed, course.layout_hash),
                                           options_.averages_models ? 0 : begun_with)});
  version.samples = std::min(version.samples, version.step * planner_.samples_max());
  generations_.agreement().set_version(version);
  follow_budget(now);
}

/// Updates the used part of the swarm's budget from our version.
void AllReduceMode::follow_budget(Time now) {
  // A newcomer has summed nothing yet, but must expect the same number of steps as the others.
  const ModelVersion& version = generations_.agreement().version();
  const std::uint64_t growth = course_.options().work.growth.after(version.samples);
  const std::uint64_t together =
      std::max<std::uint64_t>(growth * operation_.samples_before_growth(), options_.batch);
  end_.follow_budget(now, together, work_, course_, version);
}

void AllReduceMode::tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) {
  if (!course_.is_running()) return;
  if (course_.winds_down()) return next_job(now, jobs, out);
  if (generations_.set_candidates(now, course_.options().layout_hash, members)) {
    choose_site(members);
  }
  generations_.join(now, course_, out);
  end_.follow(now, course_, members, work_, generations_, out);
  planner_.set_view(end_.view(), generations_.candidates().size());
  if (ends_together()) planner_.set_final_step(course_.steps());
  if (options_.averages_arrays) follow_calls(now, out);
  while (!follow_generation(now, out)) {
  }
  next_job(now, jobs, out);
  const bool was_done = course_.phase() == Phase::done;
  generations_.move_on(now, !states_.is_fetching(), *this, course_, members, out);
  if (work_.is_on() && !was_done && course_.phase() == Phase::done) {
    out.tell(FinaleDone{.step = step(), .samples = work_.own().samples});
  }
}

Time AllReduceMode::deadline() const {
  if (course_.winds_down()) return never;
  const Time quiet = operation_.is_quiet() ? quiet_until() : never;
  const Time fails = course_.has_failed() ? never : fails_at_.value_or(never);
  const Time own =
      std::min({states_.deadline(), quiet, leaving_ ? leaving_->ask_at : never, fails});
  return generations_.deadline(course_, operation_.is_waiting(), own);
}

void AllReduceMode::leave(Time now, Effects& out) {
  if (options_.averages_arrays && waits_for_others(now, out)) return;
  leave_at_once(now, out);
}

/// Ends this mode's work with other peers. A sum that is already complete is still applied.
void AllReduceMode::wind_down(Time now, Effects& out) {
  generations_.leave_for_good(now, Phase::done, out);
  abandon();
  course_.wind_down();
}

void AllReduceMode::leave_at_once(Time now, Effects& out) {
  course_.leave();
  generations_.leave_for_good(now, course_.phase(), out);
  abandon();
}

// ---- Generations ----

/// Handles ballots and continues sums. Returns false if this ends the generation. The caller must
/// then call this function again, because a ballot may be due immediately. A piece that arrived
/// early can spoil a sum right at its start, but hardly twice in a row, so a few calls are enough.
bool AllReduceMode::follow_generation(Time now, Effects& out) {
  if (generations_.takes_part(course_)) look_after_generation(now, out);
  const Generations::Change change = generations_.follow(now, course_);
  if (change.left) abandon();
  if (change.entered != nullptr) begin_generation(now, *change.entered, out);
  const bool is_in_one = generations_.current() != nullptr;
  go_on(now, out);
  return !is_in_one || generations_.current() != nullptr;
}

/// Ends the generation if a better one is due or peers are lost, and handles ballots.
void AllReduceMode::look_after_generation(Time now, Effects& out) {
  if (generations_.is_rebalance_due(now, course_.phase(), true, out) && is_untouched(now)) {
    generations_.end(now, {}, out);
    abandon();
  }
  if (const auto silent = states_.tick(now, out)) {
    if (options_.averages_arrays) {
      miss_call(now, out);
    } else {
      disturb(now, {*silent}, out);
    }
  }
  const auto lost =
      generations_.find_lost(now, operation_.is_waiting(), operation_.progress(), out);
  if (lost) disturb(now, *lost, out);
  generations_.agree(now, planner_, out);
}

/// Ends the generation for all peers because something is wrong.
void AllReduceMode::disturb(Time now, const std::vector<PeerId>& blamed, Effects& out) {
  if (course_.winds_down()) return;
  if (generations_.disturb(now, blamed, out)) abandon();
}

void AllReduceMode::peer_gone(Time now, PeerId peer, Effects& out) {
  if (leaving_) leaving_->behind.erase(peer);
  if (generations_.is_disturbed_by(now, peer, course_.phase())) disturb(now, {peer}, out);
}

/// Tells the planner whether all candidates are on this host, and so which kind of link to assume
/// between them.
void AllReduceMode::choose_site(const Membership& members) {
  const std::vector<PeerId>& candidates = generations_.candidates();
  const auto on_our_host = static_cast<double>(std::ranges::count_if(candidates, [&](PeerId peer) {
    const Member* member = members.find(peer);
    return peer == self_ ||
           (member != nullptr && host_of(member->address) == host_of(members.self().address));
  }));
  on_one_host_ = on_our_host == static_cast<double>(candidates.size());
  const bool shares = on_one_host_ && options_.memory != std::pmr::get_default_resource();
  planner_.set_site(
      {.link = shares         ? memory_link
               : on_one_host_ ? host_link
                              : network_link,
       .peers_per_processor = options_.processors > 0 ? on_our_host / options_.processors : 0,
       .is_one_host = on_one_host_,
       .shares_memory = shares});
}

void AllReduceMode::begin_generation(Time now, const Generation& generation, Effects& out) {
  operation_.enter(generation);
  end_.enter(generation, work_, generations_.agreement());
  follow_budget(now);
  audit_.begin(generation.order);
  audit_due_.reset();
  begun_in_generation_ = 0;
  survey_.begin(generation.order, generations_.key());
  const auto rank = std::ranges::find(generation.order, self_) - generation.order.begin();
  const PeerId source = generation.sources[static_cast<std::size_t>(rank)];
  if (options_.averages_arrays) {
    begin_calls(now, generation, source, out);
  } else if (source != self_) {
    states_.fetch(now, generation, source, is_common(generation), out);
  } else {
    planner_.note_sharers(generation.version, holders_of(generation, {}).size());
    states_.need_nothing();
    if (generation.sources != generation.order) {
      first_audit_.begin(holders_of(generation, {}));
      audit_due_ = {generation.key(), generation.version.step};
    }
    begin_operation(now, out);
  }
}

/// True if all peers' states have the same bits. With local steps, optimiser states differ.
bool AllReduceMode::is_common(const Generation& generation) const {
  return !options_.local.is_local(generation.version.step);
}

void AllReduceMode::abandon() {
  operation_.leave(key_of(generations_.agreement().promised()));
  survey_.end();
  audit_.end();
  first_audit_.end();
  states_.leave_generation();
}

bool AllReduceMode::is_busy() const {
  return (course_.jobs_under_way() > 0 && !operation_.is_waiting()) || states_.is_fetching();
}

// ---- Collectives ----

void AllReduceMode::begin_operation(Time now, Effects& out) {
  if (step() >= course_.steps() || course_.is_leaving() || course_.winds_down()) return;
  if (fails_at_) return;
  survey_.operation_began(now, begun_in_generation_++,
                          from_seconds(generations_.operation_seconds()), out);
  settled_at_ =
      now + std::clamp(from_seconds(generations_.operation_seconds() / 2), settle_min, settle_max);
  operation_.set_quiet(now < quiet_until(), out);
  const std::uint64_t growth =
      course_.options().work.growth.after(generations_.agreement().version().samples);
  operation_.begin(step(), options_.local.steps_at(step(), course_.steps()), growth, out);
}

void AllReduceMode::finish_operations(Time now, Effects& out) {
  if (fails_at_) return;
  if (const auto sender = operation_.unsound_from()) {
    const std::string why =
        options_.norm_cap > 0
            ? fmt::format("it sent values that are not finite, or over {} times as long as ours",
                          options_.norm_cap)
            : not_finite;
    out.tell(SumRefused{.why = fmt::format("{}: {}", to_string(*sender), why)});
    if (generations_.refuse(now, *sender, why, out)) disturb(now, {*sender}, out);
    return;
  }
  while (operation_.is_done()) {
    check(!result_, "a sum is applied before the next is made");
    Collective::Vector sum = operation_.finish();
    if (!sum) {
      out.tell(SumRefused{.why = "not everybody's share is in it once"});
      disturb(now, {}, out);
      return;
    }
    result_ = {.values = std::move(sum),
               .plan = operation_.plan(),
               .samples = operation_.samples(),
               .local_steps = operation_.is_local() ? operation_.steps() : 0,
               .becomes_model_at = {}};
    const ModelVersion before = generations_.agreement().version();
    generations_.agreement().set_version(
        after_operation(before, generations_.key(), operation_.samples(), operation_.steps()));
    if (options_.averages_models) {
      const auto& end = options_.end;
      result_->becomes_model_at = end ? end->step : step();
      result_->end_note = end ? end->note_of(generations_.agreement().version()) : nullptr;
    }
    if (options_.averages_arrays) last_mean_ = {*result_, step()};
    work_.count_samples(now, operation_.steps() * operation_.share());
    follow_budget(now);
    audit_due_.reset();
    const bool is_due = options_.averages_models || ModelAudit::is_due(before.step, step());
    if (is_due && !options_.averages_arrays) audit_due_ = {generations_.key(), step()};
    states_.forget_debts();
    planner_.note_sharers(generations_.agreement().version(), operation_.order().size());
    generations_.operation_done(now, before.step, operation_.steps(), out);
    planner_.set_operation_seconds(generations_.operation_seconds());
    begin_operation(now, out);
  }
}

// ---- Messages, blocks and lanes ----

void AllReduceMode::receive(Time now, PeerId from, const Message& message, Membership& members,
                            Effects& out) {
  if (!course_.is_started() || !members.view().contains(from)) return;
  if (const auto* reply = std::get_if<StatusReply>(&message); reply != nullptr && leaving_) {
    if (reply->step >= step()) leaving_->behind.erase(from);
  }
  const bool votes = !course_.is_leaving() && !course_.winds_down();
  switch (generations_.receive(now, from, message, is_busy(), votes, planner_, out)) {
    case Generations::Heard::other:
      receive_own(now, from, message, out);
      break;
    case Generations::Heard::disturbed:
      disturb(now, {}, out);
      break;
    case Generations::Heard::handled:
      // Abandon the sum now. Our answer to a ballot must stay true, and no tick follows while peers
      // decide about a switch.
      if (generations_.current() == nullptr && generations_.is_in_one()) abandon();
      break;
  }
}

void AllReduceMode::receive_own(Time now, PeerId from, const Message& message, Effects& out) {
  const Generation* generation = generations_.current();
  // After the first collective of the generation, every peer has the state, so a request that
  // arrives later is a delayed duplicate.
  const bool has_state =
      generation != nullptr && generations_.agreement().version() == generation->version;
  // A newcomer that averages arrays has joined the others' call, but has no mean to send.
  const bool lacks_mean = options_.averages_arrays && !has_mean_of_step();
  if (const auto* fetch = std::get_if<StateRequest>(&message)) {
    if (!has_state || !states_.may_ask(*generation, from, fetch->id)) return;
    if (lacks_mean) return out.send(from, Refuse{fetch->id, Reason::not_ready});
    states_.owe(now, from, *fetch, out);
  } else if (const auto* sketch = std::get_if<SketchRequest>(&message)) {
    if (!has_state || !states_.may_ask(*generation, from, sketch->id)) return;
    if (lacks_mean) return out.send(from, Refuse{sketch->id, Reason::not_ready});
    states_.owe(from, *sketch, out);
  } else if (const auto* said = std::get_if<Audit>(&message);
             said != nullptr && options_.averages_arrays) {
    lengths_.note(from, said->step, said->fingerprint);
    compare_arrays(now, out);
  } else if (const auto* audit = std::get_if<Audit>(&message)) {
    const bool is_near = audit->step <= step() + 2 * ModelAudit::every;
    if (generation == nullptr || audit->ballot != generation->id || !is_near) return;
    compare(now, from, audit->step, audit->fingerprint, out);
  } else if (const auto* probed = std::get_if<ProbeAck>(&message)) {
    survey_.receive(now, from, *probed, out);
    generations_.agreement().set_links(survey_.reports());
  } else {
    states_.receive(now, from, message, out);
  }
}

void AllReduceMode::receive_block(Time now, PeerId from, const Block& block, Effects& out) {
  switch (block.id.kind) {
    case TransferKind::state:
      states_.receive(now, from, block, out);
      return;
    case TransferKind::probe:
      survey_.receive_block(from, block, out);
      return;
    case TransferKind::piece:
      if (operation_.receive(from, block, out)) {
        finish_operations(now, out);
      } else if (operation_.has_unlike_arrays()) {
        compare_arrays(now, out);
      } else if (block.id.session == key_of(generations_.agreement().promised()) &&
                 block.offset == 0) {
        operation_.keep(from, block);
      }
      return;
    default:
      return;  // The message belongs to another mode.
  }
}

void AllReduceMode::lane_lost(Time now, PeerId peer, Effects& out) {
  survey_.lane_lost(peer);
  generations_.agreement().set_links(survey_.reports());
  // Between generations every lost peer matters, because the ballot would wait for it.
  const bool concerns = generations_.current() == nullptr || operation_.involves(peer) ||
                        states_.fetches_from(peer) || states_.owes(peer);
  if (concerns) disturb(now, {peer}, out);
}

// ---- Jobs ----

void AllReduceMode::gradient_ready(Time now, std::uint64_t job, std::size_t begin, Effects& out) {
  operation_.ready(job, begin, out);
  finish_operations(now, out);
}

void AllReduceMode::complete(Time now, JobDone done, Membership& members, Effects& out) {
  course_.job_done(done);
  if (work_.is_on() && work_.learn_from(done, out)) {
    members.set_progress(progress());
    members.announce(out);
  }
  const auto* measured = first_of<result::Measured>(done.results);
  if (measured != nullptr && options_.target > 0) {
    out.tell(TargetMeasured{.value = measured->value,
                            .reached = measured->value >= options_.target,
                            .step = done.step});
  }
  const auto* gradient = first_of<result::Gradient>(done.results);
  if (gradient != nullptr) {
    const double busy = seconds(done.busy);
    const bool is_pure = first_of<result::Measured>(done.results) == nullptr;
    if (busy > 0 && is_pure) {
      generations_.agreement().set_speed(static_cast<double>(gradient->samples) / busy);
    }
    course_.learn_from(done.score);
  }
  const auto* squares = first_of<result::GradientSquares>(done.results);
  if (squares != nullptr) noise_.add(*squares);
  if (course_.is_last_job_asked()) return;
  if (const auto source = generations_.reject_state(now, done, out)) {
    auditing_.reset();
    operation_.forget_gradient();
    follow_budget(now);
    return disturb(now, {*source}, out);
  }
  if (gradient != nullptr && !gradient->is_sound) {
    // This gradient would destroy every model, so we leave and the others continue without us.
    course_.fail();
    out.tell(gradient_divergence(done.step, options_.compression));
    return;
  }
  const Generation* generation = generations_.current();
  const auto* state = first_of<task::ExportState>(done.job.tasks);
  if (state != nullptr && generation != nullptr) {
    counts_.states_sent += states_.send(*generation, state->values, is_common(*generation), out);
  }
  done.job.tasks.clear();  // The next sums may reuse the tasks' vectors.
  if (gradient != nullptr && options_.averages_arrays) {
    if (operation_.receive_array(done.job.number, gradient->array, out)) compare_arrays(now, out);
    finish_operations(now, out);
  } else if (gradient != nullptr) {
    gradient_ready(now, done.job.number, 0, out);
  }
  if (const auto* fingerprint = first_of<result::Fingerprint>(done.results)) {
    audited(now, fingerprint->value, out);
  }
}

// ---- Comparing models ----

/// Sends the fingerprint of our parameters, which a job has computed, to the other peers.
void AllReduceMode::audited(Time now, std::uint64_t fingerprint, Effects& out) {
  const auto [generation_key, operation] = *std::exchange(auditing_, std::nullopt);
  const Generation* generation = generations_.current();
  if (generation == nullptr || generation_key != generations_.key()) return;
  for (const PeerId peer : generation->order) {
    if (peer != self_) out.send(peer, Audit{generation->id, operation, fingerprint});
  }
  compare(now, self_, operation, fingerprint, out);
}

void AllReduceMode::compare(Time now, PeerId from, std::uint64_t operation,
                            std::uint64_t fingerprint, Effects& out) {
  const bool is_first = operation == generations_.current()->version.step;
  const auto verdict = (is_first ? first_audit_ : audit_).tell(from, operation, fingerprint);
  if (!verdict) return;
  const auto& [judged, odd] = *verdict;
  for (const PeerId peer : odd) out.tell(ModelsDiffer{.peer = peer, .step = judged});
  if (std::ranges::find(odd, self_) == odd.end()) return;
  // The other peers lack at most our last collective. We subtract its samples and one more, so that
  // our version ranks below theirs and the next ballot makes us download a model. We subtract no
  // more than that, because if all others are gone, we continue from our own model.
  ModelVersion version = generations_.agreement().version();
  const std::uint64_t last = options_.local.period * operation_.samples_of_step();
  version.samples -= std::min(version.samples, last + 1);
  version.lineage = hash_combine(hash_combine(version.lineage, session_), judged);
  generations_.agreement().set_version(version);
  disturb(now, {}, out);
}

void AllReduceMode::adopt(Time now, ArrivedState state, Job& job, Effects& out) {
  // Apply the pending sum first: if the replica refuses the state, it continues from its own model.
  if (result_) job.add(*std::exchange(result_, std::nullopt));
  const auto& end = options_.end;
  job.add(task::LoadState{.values = std::move(state.values),
                          .step = end ? end->step : state.version.step,
                          .own_optimizer = options_.local.is_local(state.version.step),
                          .model_only = options_.averages_models && options_.ends_run,
                          .norm_cap = generations_.norm_cap_of(now, state),
                          .end_note = end ? end->note_of(state.version) : nullptr});
  generations_.adopt(state);
  if (const Generation* generation = generations_.current()) {
    planner_.note_sharers(state.version, holders_of(*generation, self_).size() + 1);
  }
  follow_budget(now);
  // A model that the other peers still average enters their mean from here, too.
  if (end && state.version.step < end->version_step) course_.set_steps(end->version_step);
  // If the model is replaced at the end of the run, it must be saved once more.
  course_.go_back_to(step() > 0 && step() >= course_.steps() ? step() - 1 : step());
  operation_.forget_gradient();
  audit_due_.reset();
  ++counts_.states_adopted;
  out.tell(StateAdopted{.peer = state.from, .step = state.version.step});
  begin_operation(now, out);
}

void AllReduceMode::next_job(Time now, std::vector<Job>& jobs, Effects& out) {
  if (course_.jobs_under_way() > 0 || course_.is_last_job_asked()) return;
  Job job;
  if (auto state = states_.take()) {
    if (options_.averages_arrays) {
      adopt_mean(now, *std::move(state), out);
    } else {
      adopt(now, *std::move(state), job, out);
    }
  }
  if (result_) job.add(*std::exchange(result_, std::nullopt));
  if (moves_to_) {
    job.add(task::LoadState{.values = std::make_shared<Floats>(course_.options().elements),
                            .step = *std::exchange(moves_to_, std::nullopt),
                            .model_only = true});
  }
  const bool changes = !job.tasks.empty();
  auditing_ = std::exchange(audit_due_, std::nullopt);
  if (auditing_) job.add(task::TakeFingerprint{});
  if (states_.owes_any() && !options_.averages_arrays) {
    job.add(task::ExportState{states_.blank(generations_.agreement().version())});
  }
  if (course_.takes_parting()) job.add(task::PartFromMode{});
  const bool saves = course_.is_leaving() || course_.is_save_due(step());
  std::optional<task::ComputeGradient> gradient;
  if (course_.is_leaving()) {
    course_.make_next_job_last();
  } else if (!course_.winds_down()) {
    gradient = operation_.order(course_.next_job_number());
  }
  const bool is_end = saves && is_common_end();
  // Each job tells the learner the progress that belongs to the job's model.
  if (work_.is_on() && (changes || gradient || saves)) {
    job.add(task::FollowSwarm{work_.progress(now), 1, end_.note(now, is_end, work_)});
  }
  if (gradient && options_.is_leased) {
    gradient->from = generations_.agreement().version().samples + operation_.first_sample();
  }
  const bool trains = gradient.has_value();
  if (gradient) job.add(*std::move(gradient));
  // The measurement comes after the gradient, so it delays only our own next job.
  if (trains && work_.is_on()) work_.add_measurement(job);
  if (is_end && options_.target > 0 && course_.is_save_due(step())) job.add(task::Measure{});
  if (saves) job.add(task::Save{.is_common_end = is_end});
  if (job.tasks.empty()) return;
  job.version = generations_.agreement().version();
  course_.post(std::move(job), jobs);
}

/// True if our model is the one with which all peers end the run.
bool AllReduceMode::is_common_end() const {
  if (step() < course_.steps()) return false;
  const bool has_mean = generations_.operations() > 0 || counts_.states_adopted > 0;
  return ends_together() && (work_.is_on() || has_mean);
}

void AllReduceMode::go_on(Time now, Effects& out) {
  finish_operations(now, out);
  const bool quiet = now < quiet_until();
  if (quiet == operation_.is_quiet()) return;
  operation_.set_quiet(quiet, out);
  finish_operations(now, out);
}

/// The time until which our values enter no sum, because a probe or rebalance comes first.
Time AllReduceMode::quiet_until() const {
  const bool ends = generations_.is_rebalance_due() && operation_.is_untouched();
  return ends ? std::max(settled_at_, survey_.quiet_until()) : survey_.quiet_until();
}

}  // namespace gv
