// Runs the rounds of mixing, and the jobs they need.
#include "peer/modes/mixing.hpp"

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "base/rng.hpp"
#include "consensus/topology/hosts.hpp"
#include "peer/modes/divergence.hpp"

namespace gv {
namespace {

/// Returns a function that says why the config forbids a settings revision. The function returns an
/// empty text if the revision is allowed.
std::function<std::string(const SettingsRevision&)> problem_of_revision(
    const MixingOptions& options) {
  if (!options.read_revision) return {};
  return [read = options.read_revision](const SettingsRevision& revision) -> std::string {
    const Problems problems = read(revision.settings).problems;
    if (problems.empty()) return "";
    return "it switches to settings that cannot be used: " + to_string(problems.front());
  };
}

/// Removes the ledger, because in mixing each round determines which data a peer trains on.
CourseOptions without_ledger(CourseOptions course) {
  course.work = without_ledger(std::move(course.work));
  return course;
}

ReplicaPlanner::Options planner_options(const CourseOptions& course, const MixingOptions& options) {
  return {.batch = options.batch,
          .batch_max = options.batch,
          .growth_max = course.work.growth.most(),
          .elements = course.elements,
          .own_models_within = options.catch_up_rounds * options.period,
          .revision_problem = problem_of_revision(options)};
}

/// Returns the host of each peer as an index. All peers of the generation compute the same indices.
std::vector<std::size_t> hosts_of(const std::vector<PeerId>& peers, const Generation& generation) {
  if (generation.hosts.empty()) return {};
  std::vector<std::uint64_t> keys;
  for (const PeerId peer : peers) {
    const auto at = std::ranges::find(generation.order, peer) - generation.order.begin();
    keys.push_back(generation.hosts[static_cast<std::size_t>(at)]);
  }
  return host_numbers(keys);
}

}  // namespace

MixingMode::MixingMode(PeerId self, std::uint64_t session, const CourseOptions& course,
                       const MixingOptions& options, const Signer& signer, const Rng& draws)
    : self_(self),
      course_(self, course),
      generations_(self, session, options.agreement, signer),
      planner_(planner_options(course, options)),
      options_(options),
      states_(self,
              {.layout_hash = course.layout_hash,
               .elements = options.state_elements,
               .compared = course.elements,
               .memory = options.memory},
              draws),
      finale_(self, session, without_ledger(course), options.mean, signer, draws),
      box_(
          [this](std::uint64_t round, std::span<const std::byte> begin) {
            return mix_message_bytes<float>(options_.rule, course_.options().elements, round,
                                            begin);
          },
          mix_message_bytes_max(course.elements)) {
  generations_.agreement().set_in_step(is_in_step(options_.rule));
  switches_ = options.tells_rule;
  options_.revision = {};
  if (options.revision.number == 0) return;
  generations_.agreement().set_revision(options.revision);
  check(adopt(options.revision).empty(), "a resumed settings revision can be read");
}

MixingCounts MixingMode::counts() const {
  MixingCounts counts = counts_;
  counts.rounds = generations_.operations();
  counts.generations = generations_.count();
  counts.losses = generations_.recoveries().losses();
  counts.messages_dropped = box_.dropped();
  return counts;
}

void MixingMode::start(Time now, std::uint64_t step, bool joins_others) {
  course_.start(now, step, joins_others);
  finale_.work().begin(now);
  // Peers' models differ, so a version only states how far a peer is, and to which run it belongs.
  generations_.agreement().set_version(
      {.step = step,
       .samples = planner_.samples_at(step, course_.options().work.resumed.samples),
       .lineage = hash_combine(course_.options().run_seed, course_.options().layout_hash)});
  follow_budget(now);
}

/// Updates the used part of the swarm's budget from our version, if all peers make the same steps.
void MixingMode::follow_budget(Time now) {
  if (finale_.is_on() && is_in_step(options_.rule)) {
    finale_.work().agree_on(now, generations_.agreement().version().samples);
  }
}

/// The number of samples that all peers of the generation take in one step.
std::uint64_t MixingMode::samples_together() const {
  const bool has_resting = finale_.is_on() && options_.rule.centre_rests && order_.size() > 1;
  const std::uint64_t growth =
      course_.options().work.growth.after(generations_.agreement().version().samples);
  return growth * options_.batch * (order_.size() - (has_resting ? 1 : 0));
}

void MixingMode::tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) {
  if (!course().is_running()) return;
  if (!finale_.is_ending() && !course_.winds_down()) {
    generations_.set_candidates(now, course_.options().layout_hash, members);
    generations_.agreement().set_host(host_key(members.self().address));
    waits_for_mean_ = finale_.is_on() && course_.phase() == Phase::joining && step() == 0 &&
                      finale_.has_ended_for_a_third(members);
    if (!waits_for_mean_) generations_.join(now, course_, out);
    if (generations_.takes_part(course_)) look_after_generation(now, out);
    const Generations::Change change = generations_.follow(now, course_);
    if (change.left) abandon();
    if (change.entered != nullptr) begin_generation(now, *change.entered, out);
    go_on(now, out);
  }
  if (tick_finale(now, members, out, jobs)) return;
  next_job(now, jobs, out);
  if (finale_.is_ending() || course_.winds_down()) return;
  generations_.move_on(now, !states_.is_fetching(), *this, course_, members, out);
}

/// Stops training once the swarm's budget is used up, and then computes the common mean. Returns
/// true if the mean has begun and no other work is left.
bool MixingMode::tick_finale(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) {
  if (!finale_.is_on()) return false;
  const bool is_due = course_.phase() == Phase::training && !finale_.is_ending() &&
                      !course_.is_leaving() &&
                      finale_.is_due(now, is_in_step(options_.rule), members, out);
  if (finale_.ends(is_due, step(), course_, members, out)) end_rounds(now, out);
  const bool is_still = course_.jobs_under_way() == 0 && !ends_;
  return finale_.follow(now, is_still, *this, course_, members, out, jobs);
}

/// Leaves the generation for good. A round whose messages have all arrived is still mixed.
void MixingMode::end_rounds(Time now, Effects& out) {
  generations_.leave_for_good(now, Phase::done, out);
  const auto ended = ends_;
  std::vector<MixMessage> arrived = std::exchange(arrived_, {});
  abandon();
  ends_ = ended;
  arrived_ = std::move(arrived);
}

void MixingMode::wind_down(Time now, Effects& out) {
  end_rounds(now, out);
  course_.wind_down();
}

Time MixingMode::deadline() const {
  if (!course().is_running() || course_.winds_down()) return never;
  if (finale_.mean() != nullptr) return finale_.mean()->deadline();
  if (finale_.is_ending()) return course_.is_leaving() ? never : finale_.deadline();
  if (waits_for_mean_ && !generations_.has_joined()) return never;
  return generations_.deadline(course_, sent_, states_.deadline());
}

void MixingMode::leave(Time now, Effects& out) {
  if (finale_.mean() != nullptr) finale_.mean()->leave(now, out);
  course_.leave();
  if (!finale_.is_ending()) generations_.leave_for_good(now, course_.phase(), out);
  abandon();
}

// ---- Generations ----

/// Ends the generation if newcomers wait or peers are lost, and handles ballots.
void MixingMode::look_after_generation(Time now, Effects& out) {
  if (generations_.is_rebalance_due(now, course_.phase(), false, out) && !sent_) {
    generations_.end(now, {}, out);
    abandon();
  }
  if (const auto silent = states_.tick(now, out)) disturb(now, {*silent}, out);
  const auto lost = generations_.find_lost(now, sent_, box_.received(), out);
  if (lost) disturb(now, *lost, out);
  generations_.agree(now, planner_, out);
}

/// Ends the generation for all peers because something is wrong.
void MixingMode::disturb(Time now, const std::vector<PeerId>& blamed, Effects& out) {
  // We have left. At most one round remains to be mixed, and its messages have all arrived.
  if (finale_.is_ending() || course_.winds_down()) return;
  if (generations_.disturb(now, blamed, out)) abandon();
}

void MixingMode::peer_gone(Time now, PeerId peer, Effects& out) {
  if (finale_.mean() != nullptr) return finale_.mean()->peer_gone(now, peer, out);
  if (generations_.is_disturbed_by(now, peer, course_.phase())) disturb(now, {peer}, out);
}

void MixingMode::refuse(Time now, PeerId peer, Effects& out) {
  if (finale_.mean() != nullptr) return finale_.mean()->refuse(now, peer, out);
  if (generations_.follow_quarantine(now, peer, out)) disturb(now, {peer}, out);
}

void MixingMode::begin_generation(Time now, const Generation& generation, Effects& out) {
  // Messages of the last generation that were not mixed still update our copies of the neighbours'
  // vectors.
  if (told_ && traits_of(options_.rule).keeps_copies) {
    take_messages(unbounded_staleness, left_over_);
  }
  told_ = false;
  order_ = generation.order;
  // Ranks follow the order of ids, so they do not depend on the order that the generation chose.
  std::ranges::sort(order_);
  rank_ = static_cast<std::size_t>(std::ranges::find(order_, self_) - order_.begin());
  go_by(generation, out);
  hosts_.clear();
  if (options_.rule.topology.kind == TopologyKind::hosts) hosts_ = hosts_of(order_, generation);
  plan_.emplace(options_.rule, order_.size(), course_.options().run_seed, hosts_);
  round_ = served_ = followed_ = 0;
  box_.enter(generations_.key(), order_, inbox_limit(options_.rule, *plan_, serves()));
  place_ = MixPlace{.rank = rank_,
                    .order = order_,
                    .key = generations_.key(),
                    .step = generation.version.step,
                    .hosts = hosts_};
  const auto own = std::ranges::find(generation.order, self_) - generation.order.begin();
  const PeerId source = generation.sources[static_cast<std::size_t>(own)];
  // A peer that lacks the state requests it from one peer, and asks others to confirm it.
  gives_state_ = source == self_ && generation.sources != generation.order;
  if (source != self_) {
    states_.fetch(now, generation, source, false, out);
  } else {
    states_.need_nothing();
    generations_.agreement().set_version(generation.version);
    follow_budget(now);
  }
}

void MixingMode::abandon() {
  if (traits_of(options_.rule).keeps_copies) {
    std::ranges::move(arrived_, std::back_inserter(left_over_));
  }
  unsent_ = unsent_ || round_job_ != 0;
  states_.leave_generation();
  place_.reset();
  state_.reset();
  gives_state_ = false;
  sent_ = false;
  ends_.reset();
  arrived_.clear();
  round_job_ = 0;
}

// ---- Rounds ----

/// The number of steps in the round that begins at `step`: a period, or fewer at the end of the
/// budget. A centre that serves workers counts the average number of steps of its workers.
std::uint64_t MixingMode::steps_at(std::uint64_t step) const {
  if (serves()) {
    const std::size_t senders = plan_->turn(rank_, round_).in.size();
    const std::uint64_t behind = served_ * options_.period / senders - followed_;
    return finale_.is_on() ? behind
                           : std::min(behind, course_.steps() - std::min(course_.steps(), step));
  }
  if (finale_.is_on()) {
    const bool are_alike = is_in_step(options_.rule);
    return are_alike ? std::min(options_.period, finale_.work().steps_left_of(samples_together()))
                     : options_.period;
  }
  return std::min(options_.period, course_.steps() - std::min(course_.steps(), step));
}

/// The number of steps that count towards the next round because our model made them in a round
/// that never ended.
std::uint64_t MixingMode::carried_steps() const {
  return is_in_step(options_.rule) ? 0 : std::min(made_, steps_at(step()));
}

/// True if we are a centre that does not train. A centre without workers trains.
bool MixingMode::rests() const {
  return options_.rule.centre_rests && rank_ == 0 && order_.size() > 1;
}

/// True if we are a centre that acts on each message as it arrives.
bool MixingMode::serves() const { return rests() && !is_in_step(options_.rule); }

/// Appends to `to` all messages of rounds up to `last` that have arrived and were not taken yet.
void MixingMode::take_messages(std::uint64_t last, std::vector<MixMessage>& to) {
  std::ranges::move(box_.take(last), std::back_inserter(to));
}

/// True if all messages that the round waits for have arrived.
bool MixingMode::is_complete() const {
  if (serves()) return box_.has_news() || step() + steps_at(step()) >= course_.steps();
  const std::uint64_t staleness = options_.rule.staleness;
  if (staleness > round_) return true;
  const std::uint64_t due = round_ - staleness;
  const bool newest_suffices = traits_of(options_.rule).newest_suffices;
  return std::ranges::all_of(plan_->turn(rank_, due).in, [&](const Share& share) {
    const PeerId from = order_[share.from];
    return newest_suffices ? box_.has_since(from, due) : box_.has(from, due);
  });
}

void MixingMode::go_on(Time now, Effects& out) {
  // A round ends only when no job is running, so the previous round's messages have been mixed.
  if (!sent_ || ends_ || course_.jobs_under_way() > 0 || !is_complete()) return;
  const std::uint64_t staleness = options_.rule.staleness;
  ends_ = round_;
  take_messages(staleness == 0 ? round_ : unbounded_staleness, arrived_);
  sent_ = false;
  made_ = 0;
  ++round_;
  if (is_in_step(options_.rule)) box_.close_before(round_ - std::min(round_, staleness));
  const ModelVersion before = generations_.agreement().version();
  const std::uint64_t steps = steps_at(before.step);
  ModelVersion after = before;
  after.step += steps;
  after.samples += steps * samples_together();
  if (finale_.is_on() && !is_in_step(options_.rule)) {
    // A slow peer makes few steps, and other peers refuse a version with more samples than its
    // steps can have (see unsoundness()).
    const std::uint64_t most = after.step * planner_.samples_max();
    after.samples = std::max(before.samples, std::min(finale_.work().counted(), most));
  }
  generations_.agreement().set_version(after);
  followed_ += steps;
  served_ += arrived_.size();
  follow_budget(now);
  generations_.operation_done(now, before.step, steps, out);
  planner_.set_operation_seconds(generations_.operation_seconds());
}

void MixingMode::send(const MixOutbox& outbox, Effects& out) {
  const bool newest_suffices = traits_of(options_.rule).newest_suffices;
  for (const MixMessage& message : outbox.messages) {
    for (const std::size_t rank : message.to) {
      ++counts_.messages_sent;
      counts_.bytes_sent += message.bytes->size();
      out.transfers.push_back({.to = order_[rank],
                               .id = mixing_id(self_, generations_.key(), round_),
                               .payload = {message.bytes, *message.bytes},
                               .superseded_by_next = newest_suffices});
    }
  }
}

// ---- Messages, blocks and lanes ----

void MixingMode::receive(Time now, PeerId from, const Message& message, Membership& members,
                         Effects& out) {
  if (!course_.is_started() || !members.view().contains(from)) return;
  if (finale_.is_on() && finale_.is_for_mean(message)) {
    if (finale_.mean() != nullptr) finale_.mean()->receive(now, from, message, members, out);
    return;
  }
  const bool busy = course_.jobs_under_way() > 0 || states_.is_fetching();
  const bool votes = !course_.is_leaving() && !finale_.is_ending() && !course_.winds_down();
  switch (generations_.receive(now, from, message, busy, votes, planner_, out)) {
    case Generations::Heard::other:
      receive_own(now, from, message, out);
      break;
    case Generations::Heard::disturbed:
      disturb(now, {}, out);
      break;
    case Generations::Heard::handled:
      // Abandon the round now. Our answer to a ballot says how far we are, so no message that
      // arrives later may complete a round.
      if (generations_.current() == nullptr && generations_.is_in_one()) abandon();
      break;
  }
}

void MixingMode::receive_own(Time now, PeerId from, const Message& message, Effects& out) {
  const Generation* generation = generations_.current();
  const auto* fetch = std::get_if<StateRequest>(&message);
  const auto* sketch = std::get_if<SketchRequest>(&message);
  if (fetch == nullptr && sketch == nullptr) return states_.receive(now, from, message, out);
  if (generation == nullptr || !states_.may_ask(*generation, from, *transfer_of(message))) return;
  if (fetch != nullptr) {
    states_.owe(now, from, *fetch, out);
  } else {
    states_.owe(from, *sketch, out);
  }
  serve(out);
}

/// Sends our state, or sketches of it, to the peers that have asked. Does nothing until a job has
/// copied the state.
void MixingMode::serve(Effects& out) {
  const Generation* generation = generations_.current();
  if (state_ && generation != nullptr)
    counts_.states_sent += states_.send(*generation, state_, false, out);
}

void MixingMode::receive_block(Time now, PeerId from, const Block& block, Effects& out) {
  if (finale_.mean() != nullptr) return finale_.mean()->receive_block(now, from, block, out);
  if (block.id.kind == TransferKind::state) return states_.receive(now, from, block, out);
  if (block.id.kind != TransferKind::mixing) return;
  const std::uint64_t session = block.id.session;
  const bool is_present = session == generations_.key();
  // A peer that has made its last round mixes no more messages, and keeps none.
  const bool is_over = is_present && !sent_ && !ends_ && step() >= course_.steps();
  if (is_over || finale_.is_ending()) return box_.enter(generations_.key(), {});
  if (!is_present && session != key_of(generations_.agreement().promised())) return;
  box_.receive(from, block);
  go_on(now, out);
}

std::span<std::byte> MixingMode::place(PeerId from, const TransferId& id, std::uint64_t offset,
                                       std::size_t bytes) {
  if (finale_.mean() == nullptr) return {};
  return finale_.mean()->place(from, id, offset, bytes);
}

void MixingMode::lane_lost(Time now, PeerId peer, Effects& out) {
  if (finale_.mean() != nullptr) return finale_.mean()->lane_lost(now, peer, out);
  // We closed the lanes to a peer that we refuse, and we wait for none of its messages.
  if (!is_in_step(options_.rule) && generations_.agreement().refuses(peer)) return;
  const Generation* generation = generations_.current();
  // Between generations every lost peer matters, because the ballot would wait for it.
  const bool concerns = generation == nullptr || (generation->contains(peer) &&
                                                  (course_.phase() != Phase::done || !is_idle()));
  if (concerns) disturb(now, {peer}, out);
}

void MixingMode::lane_refused(Time now, PeerId peer, Effects& out) {
  if (finale_.mean() != nullptr) return finale_.mean()->lane_refused(now, peer, out);
  lane_lost(now, peer, out);
}

// ---- Jobs ----

/// Sends the messages of the round. If the rule sends them before the steps, they are ready before
/// the job ends.
void MixingMode::gradient_ready(Time now, std::uint64_t job, std::size_t begin, Effects& out) {
  if (finale_.mean() != nullptr) return finale_.mean()->gradient_ready(now, job, begin, out);
  if (job == 0 || job != round_job_) return;
  round_job_ = 0;
  if (!outbox_->sound) {
    // This model would destroy our neighbours' models, so we leave and the others continue without
    // us.
    course_.fail();
    out.tell(mixing_divergence(step(), options_.rule));
    return;
  }
  send(*outbox_, out);
  sent_ = true;
}

void MixingMode::complete(Time now, JobDone done, Membership& members, Effects& out) {
  if (finale_.mean() != nullptr) {
    return finale_.mean()->complete(now, std::move(done), members, out);
  }
  course_.job_done(done);
  const auto* steps = first_of<task::TakeSteps>(done.job.tasks);
  if (steps != nullptr && !steps->rests) made_ += steps->count;
  bool has_news = finale_.is_on() && finale_.work().learn_from(done, out);
  if (finale_.is_on() && steps != nullptr && !steps->rests && !is_overtaken(done.job)) {
    finale_.work().count(now, steps->count, batch_growth(done.job));
    has_news |= !is_in_step(options_.rule) && finale_.work().is_news();
  }
  if (has_news) {
    members.set_progress(progress());
    members.announce(out);
  }
  if (done.steps_run > 0) {
    const double busy = seconds(done.busy);
    const auto samples =
        static_cast<double>(done.steps_run * options_.batch * batch_growth(done.job));
    const bool is_pure = first_of<result::Measured>(done.results) == nullptr;
    if (busy > 0 && is_pure) generations_.agreement().set_speed(samples / busy);
    course_.learn_from(done.score);
  }
  if (const auto* mixing = first_of<result::Mixing>(done.results)) {
    counts_.messages_refused += mixing->refused;
  }
  if (course_.is_last_job_asked()) return;
  if (const auto source = generations_.reject_state(now, done, out)) {
    told_ = false;
    round_job_ = 0;
    follow_budget(now);
    return disturb(now, {*source}, out);
  }
  const auto* state = first_of<task::ExportState>(done.job.tasks);
  if (state != nullptr && generations_.current() != nullptr && gives_state_) {
    state_ = state->values;
    serve(out);
  }
  gradient_ready(now, done.job.number, 0, out);
}

/// True if the other peers ended this job's round before us. They have counted the round for us
/// too, and we continue from the model of one of them. False if peers do not wait for each other,
/// because each then counts its own rounds.
bool MixingMode::is_overtaken(const Job& job) const {
  const Generation* generation = generations_.current();
  return is_job_in_step_ && generation != nullptr &&
         job.version.samples < generation->version.samples;
}

void MixingMode::next_job(Time now, std::vector<Job>& jobs, Effects& out) {
  if (course_.jobs_under_way() > 0 || course_.is_last_job_asked()) return;
  Job job;
  auto state = states_.take();
  if (state) {
    generations_.adopt(*state);
    made_ = 0;
    follow_budget(now);
    course_.go_back_to(state->version.step);
    ++counts_.states_adopted;
    out.tell(StateAdopted{.peer = state->from, .step = state->version.step});
  }
  const bool takes_part =
      generations_.is_in_one() && !states_.is_fetching() && !course_.is_leaving();
  auto place = takes_part ? std::exchange(place_, std::nullopt) : std::nullopt;
  if (place) {
    told_ = true;
    job.add(task::LeaveGeneration{std::exchange(left_over_, {}), std::exchange(unsent_, false)});
  }
  if (state) {
    job.add(task::LoadState{.values = std::move(state->values),
                            .step = state->version.step,
                            .norm_cap = generations_.norm_cap_of(now, *state)});
  }
  if (place) {
    place->step += carried_steps();
    const bool switches = std::exchange(switches_, false);
    job.add(task::EnterGeneration{*std::move(place),
                                  switches ? std::make_shared<MixRule>(options_.rule) : nullptr,
                                  course_.options().run_seed});
    if (gives_state_) {
      job.add(task::ExportState{states_.blank(generations_.agreement().version())});
    }
  }
  if (const auto ended = std::exchange(ends_, std::nullopt)) {
    job.add(task::MixRound{*ended, std::exchange(arrived_, {})});
  }
  if (course_.takes_parting()) job.add(task::PartFromMode{});
  const bool saves = course_.is_leaving() || (!finale_.is_ending() && course_.is_save_due(step()));
  if (course_.is_leaving()) {
    course_.make_next_job_last();
    if (finale_.is_on()) {
      job.add(task::FollowSwarm{finale_.work().progress(now), 1, finale_.work().note()});
    }
  } else if (takes_part && !sent_ && step() < course_.steps()) {
    begin_round(now, job);
  }
  if (saves) job.add(task::Save{});
  if (job.tasks.empty()) return;
  job.version = generations_.agreement().version();
  course_.post(std::move(job), jobs);
}

/// Adds the round's steps and messages to the job.
void MixingMode::begin_round(Time now, Job& job) {
  outbox_ = std::make_shared<MixOutbox>();
  round_job_ = course_.next_job_number();
  task::TakeSteps steps{.count = steps_at(step()), .from = {}, .rests = rests()};
  if (options_.is_leased) {
    // A resting centre has rank 0 and takes no samples, so it does not count here.
    const std::size_t before =
        samples_together() < options_.batch * order_.size() && rank_ > 0 ? rank_ - 1 : rank_;
    steps.from = generations_.agreement().version().samples + before * steps.count * options_.batch;
  }
  steps.count -= carried_steps();
  is_job_in_step_ = is_in_step(options_.rule);
  const task::SendRound messages{round_, outbox_};
  job.add(task::BeginRound{round_});
  if (finale_.is_on()) {
    SwarmWork& work = finale_.work();
    const double progress = work.progress(now);
    const std::uint64_t growth = work.batch_growth();
    const std::uint64_t each =
        is_in_step(options_.rule) ? samples_together() : growth * options_.batch;
    job.add(task::FollowSwarm{progress, 1, work.note(steps.count * each), growth});
  }
  if (options_.rule.order == MixOrder::combine_then_adapt) {
    job.add(messages);
    job.add(steps);
  } else {
    job.add(steps);
    job.add(messages);
  }
  // The measurement comes after the messages, so it delays only our own next round.
  if (finale_.is_on()) finale_.work().add_measurement(job);
}

}  // namespace gv
