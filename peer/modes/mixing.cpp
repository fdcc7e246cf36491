// Rounds of mixing, and the jobs they need.
#include "peer/modes/mixing.hpp"

#include <algorithm>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "base/rng.hpp"

namespace gv {
namespace {

ReplicaPlanner::Options planner_options(const CourseOptions& course, const MixingOptions& options) {
  return {.batch = options.batch,
          .batch_max = options.batch,
          .elements = course.elements,
          .own_models_within = options.catch_up_rounds * options.period};
}

}  // namespace

MixingMode::MixingMode(PeerId self, std::uint64_t session, const CourseOptions& course,
                       const MixingOptions& options)
    : GenerationMode(self, session, course, options.agreement),
      session_(session),
      planner_(planner_options(course, options)),
      options_(options),
      states_(self, course.layout_hash, options.state_elements, options.memory),
      box_(
          [this](std::uint64_t round, std::span<const std::byte> begin) {
            return mix_message_bytes<float>(options_.rule, course_.elements, round, begin);
          },
          mix_message_bytes_max(course.elements)) {
  options_.revision = {};
  if (options.revision.number == 0) return;
  agreement_.set_revision(options.revision);
  check(adopt(options.revision).empty(), "a resumed settings revision can be read");
}

MixingCounts MixingMode::counts() const {
  MixingCounts counts = counts_;
  counts.rounds = operations_;
  counts.generations = generations_;
  counts.losses = recoveries_.losses();
  return counts;
}

std::vector<PeerId> MixingMode::heard() const {
  std::vector<PeerId> peers;
  if (!plan_) return peers;
  for (const Share& share : plan_->turn(rank_, round_).in) peers.push_back(order_[share.from]);
  return peers;
}

std::vector<PeerId> MixingMode::out_neighbours() const {
  std::vector<PeerId> peers;
  if (!plan_) return peers;
  for (const std::size_t rank : plan_->turn(rank_, round_).out) peers.push_back(order_[rank]);
  return peers;
}

void MixingMode::begin_at(std::uint64_t step) {
  // Models differ, so a version only says how far a peer is, and that it belongs to this run.
  agreement_.set_version({.step = step,
                          .samples = step * options_.batch,
                          .lineage = hash_combine(course_.run_seed, course_.layout_hash)});
}

// ---- Generations ----

void MixingMode::begin_generation(Time now, const Generation& generation, Effects& out) {
  // Messages of the last generation that were not mixed still say what neighbours know.
  if (told_ && traits_of(options_.rule).keeps_copies) {
    append(box_.take(unbounded_staleness), left_over_);
  }
  told_ = false;
  order_ = generation.order;
  std::ranges::sort(order_);  // Ranks go by id; a generation may order peers in another way.
  rank_ = static_cast<std::size_t>(std::ranges::find(order_, self_) - order_.begin());
  go_by(generation, out);
  plan_.emplace(options_.rule, order_.size(), course_.run_seed);
  round_ = 0;
  box_.enter(generation_key_);
  place_ = MixPlace{
      .rank = rank_, .order = order_, .key = generation_key_, .step = generation.version.step};
  PeerId source = self_;
  gives_state_ = false;
  for (std::size_t i = 0; i < generation.order.size(); ++i) {
    if (generation.order[i] == self_) source = generation.sources[i];
    gives_state_ = gives_state_ || (generation.sources[i] == self_ && generation.order[i] != self_);
  }
  if (source != self_) {
    states_.fetch(now, generation, source, out);
  } else {
    agreement_.set_version(generation.version);
  }
}

/// Adopts the generation's settings revision, if it is new.
void MixingMode::go_by(const Generation& generation, Effects& out) {
  if (generation.revision == options_.revision) return;
  const Problems problems = adopt(generation.revision);
  if (!problems.empty()) {
    // The peer that asked for it could read it, so it runs another program or has other settings.
    become_stuck(SettingsRevisionNotUnderstood{.why = to_string(problems.front())}, out);
    return;
  }
  switches_ = true;
  ruled_since_ = generation.version.step;
  out.tell(AlgorithmSwitched{.settings = generation.revision.settings,
                             .settings_revision = generation.revision.number,
                             .step = generation.version.step});
}

/// Adopts the rule and period of a settings revision, unless it cannot be read.
Problems MixingMode::adopt(const SettingsRevision& revision) {
  if (!options_.read_revision) return GenerationMode::switch_to({}, revision.settings);
  SwitchedMixing switched = options_.read_revision(revision.settings);
  if (!switched.problems.empty()) return std::move(switched.problems);
  options_.rule = std::move(switched.rule);
  options_.period = switched.period;
  options_.revision = revision;
  return {};
}

/// When the work under way is done, all peers begin a generation with these settings.
Problems MixingMode::switch_to(Time now, std::string_view settings) {
  if (!options_.read_revision) return GenerationMode::switch_to(now, settings);
  if (leaving_ || phase_ == Phase::done) {
    return {
        {.place = "run", .reason = "training is over here", .remedy = "ask a peer that trains"}};
  }
  if (settings.size() > revision_bytes_max) {
    return {{.place = "settings",
             .reason = "longer than " + std::to_string(revision_bytes_max) + " bytes",
             .remedy = "leave out what has its default"}};
  }
  SwitchedMixing switched = options_.read_revision(settings);
  if (switched.problems.empty()) {
    agreement_.set_revision({agreement_.revision().number + 1, std::string(settings)});
  }
  return std::move(switched.problems);
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

/// Steps of the round that begins at `step`: a period, but never beyond the budget.
std::uint64_t MixingMode::steps_at(std::uint64_t step) const {
  return std::min(options_.period, course_.steps - std::min(course_.steps, step));
}

/// A centre rests, unless it is alone: then it has no steps of others to follow.
bool MixingMode::rests() const {
  return options_.rule.centre_rests && rank_ == 0 && order_.size() > 1;
}

/// Appends the messages of peers in this generation, with ranks.
void MixingMode::append(std::vector<RoundInbox::Parcel> parcels, std::vector<MixParcel>& to) const {
  for (RoundInbox::Parcel& parcel : parcels) {
    const auto rank = std::ranges::find(order_, parcel.from) - order_.begin();
    if (rank == std::ssize(order_)) continue;
    to.push_back({static_cast<std::size_t>(rank), parcel.round, std::move(parcel.bytes)});
  }
}

/// All messages that the round waits for are there.
bool MixingMode::is_complete() const {
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
  // Earlier arrivals were given to a job, and that job is done.
  if (!sent_ || ends_ || jobs_under_way_ > 0 || !is_complete()) return;
  const std::uint64_t staleness = options_.rule.staleness;
  ends_ = round_;
  append(box_.take(staleness == 0 ? round_ : unbounded_staleness), arrived_);
  sent_ = false;
  ++round_;
  if (staleness != unbounded_staleness) box_.close_before(round_ - std::min(round_, staleness));
  const ModelVersion before = agreement_.version();
  const std::uint64_t steps = steps_at(before.step);
  ModelVersion after = before;
  after.step += steps;
  after.samples += steps * options_.batch * order_.size();
  agreement_.set_version(after);
  operation_done(now, before.step, steps, out);
  planner_.set_operation_seconds(operation_seconds());
}

void MixingMode::send(const MixOutbox& outbox, Effects& out) {
  const bool newest_suffices = traits_of(options_.rule).newest_suffices;
  for (const MixMessage& message : outbox.messages) {
    for (const std::size_t rank : message.to) {
      ++counts_.messages_sent;
      counts_.bytes_sent += message.bytes->size();
      out.transfers.push_back({.to = order_[rank],
                               .id = {self_, generation_key_, round_},
                               .payload = {message.bytes, *message.bytes},
                               .superseded_by_next = newest_suffices});
    }
  }
}

// ---- Messages, blocks and lanes ----

void MixingMode::receive_own(Time, PeerId from, const Message& message,
                             const Generation* generation, Effects& out) {
  const auto* fetch = std::get_if<StateRequest>(&message);
  if (fetch == nullptr || generation == nullptr || !states_.is_asked(*generation, from, *fetch))
    return;
  states_.owe(from);
  serve(out);
}

/// Sends our state to the peers that have asked, once a job has copied it.
void MixingMode::serve(Effects& out) {
  const Generation* generation = agreement_.generation();
  if (state_ && generation != nullptr)
    counts_.states_sent += states_.send(*generation, state_, out);
}

void MixingMode::receive_block(Time now, PeerId from, const Block& block, Effects& out) {
  if (StateTransfer::concerns(block)) {
    states_.receive(now, from, block);
  } else if (block.id.session == generation_key_ ||
             block.id.session == key_of(agreement_.promised())) {
    box_.receive(from, block);
    go_on(now, out);
  }
}

void MixingMode::lane_lost(Time now, PeerId peer, Effects& out) {
  const Generation* generation = agreement_.generation();
  // Between generations a lost peer should not be waited for.
  const bool concerns = generation == nullptr ||
                        (generation->contains(peer) && (phase_ != Phase::done || !is_idle()));
  if (concerns) disturb(now, {peer}, out);
}

void MixingMode::lane_refused(Time now, PeerId peer, Effects& out) { lane_lost(now, peer, out); }

// ---- Jobs ----

/// Where the rule sends first, messages are ready before the job is over.
void MixingMode::gradient_ready(Time, std::uint64_t job, std::size_t, Effects& out) {
  if (job == 0 || job != round_job_) return;
  round_job_ = 0;
  if (!outbox_->sound) {
    become_unfit(step(), out);
    return;
  }
  send(*outbox_, out);
  sent_ = true;
}

void MixingMode::take(Time now, JobDone done, Membership&, Effects& out) {
  if (done.steps_run > 0) {
    const double busy = seconds(done.busy);
    const auto samples = static_cast<double>(done.steps_run * options_.batch);
    if (busy > 0) agreement_.set_speed(samples / busy);
    learn_from(done.score);
  }
  if (done.mix) counts_.messages_refused += done.mix->refused;
  if (last_job_) return;
  if (done.state && agreement_.generation() != nullptr && gives_state_) {
    state_ = std::move(done.state);
    serve(out);
  }
  gradient_ready(now, done.number, 0, out);
}

void MixingMode::next_job(Time, std::vector<Job>& jobs, Effects& out) {
  if (jobs_under_way_ > 0 || last_job_) return;
  Job job;
  MixJob mix;
  if (auto state = states_.take()) {
    job.load_state = ReplicaState{
        .values = std::move(state->values), .step = state->version.step, .own_optimizer = false};
    mix.forget = true;
    agreement_.set_version(state->version);
    saved_step_ = std::min(saved_step_, state->version.step);
    ++counts_.states_adopted;
    out.tell(StateAdopted{.peer = state->from, .step = state->version.step});
  }
  const bool takes_part = is_in_generation() && is_ready() && !leaving_;
  if (takes_part) mix.place = std::exchange(place_, std::nullopt);
  if (mix.place) {
    told_ = true;
    mix.left_over = std::exchange(left_over_, {});
    mix.unsent = std::exchange(unsent_, false);
    if (std::exchange(switches_, false)) mix.rule = options_.rule;
  }
  if (takes_part && mix.place && gives_state_) job.state = states_.blank(agreement_.version());
  mix.ends = std::exchange(ends_, std::nullopt);
  mix.arrived = std::exchange(arrived_, {});
  job.save = leaving_ || is_save_due(step());
  if (leaving_) {
    last_job_ = true;
  } else if (takes_part && !sent_ && step() < course_.steps) {
    mix.begins = round_;
    mix.rests = rests();
    job.steps = steps_at(step());
    outbox_ = mix.outbox = std::make_shared<MixOutbox>();
    round_job_ = job_number_ + 1;
  }
  const bool mixes = mix.forget || mix.place || mix.ends || mix.begins;
  if (mixes) job.mix = std::move(mix);
  if (!job.load_state && !job.save && !mixes) return;
  post(std::move(job), jobs);
}

}  // namespace gv
