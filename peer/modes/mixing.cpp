// Rounds of mixing, and the jobs they need.
#include "peer/modes/mixing.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/check.hpp"
#include "base/rng.hpp"

namespace gv {
namespace {

/// Judges settings by the rules of a config.
std::function<std::string(const SettingsRevision&)> problem_of_revision(
    const MixingOptions& options) {
  if (!options.read_revision) return {};
  return [read = options.read_revision](const SettingsRevision& revision) -> std::string {
    const Problems problems = read(revision.settings).problems;
    if (problems.empty()) return "";
    return "it switches to settings that cannot be used: " + to_string(problems.front());
  };
}

ReplicaPlanner::Options planner_options(const CourseOptions& course, const MixingOptions& options) {
  return {.batch = options.batch,
          .batch_max = options.batch,
          .elements = course.elements,
          .own_models_within = options.catch_up_rounds * options.period,
          .revision_problem = problem_of_revision(options)};
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
      box_(
          [this](std::uint64_t round, std::span<const std::byte> begin) {
            return mix_message_bytes<float>(options_.rule, course_.options().elements, round,
                                            begin);
          },
          mix_message_bytes_max(course.elements)) {
  generations_.agreement().set_in_step(is_in_step(options_.rule));
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

/// Lines for people: the neighbours, and the settings switched to.
std::vector<std::string> MixingMode::details(const std::vector<std::string>& in,
                                             const std::vector<std::string>& out) const {
  const auto listed = [](const std::vector<std::string>& names) {
    return names.empty() ? std::string("no peer") : fmt::format("{}", fmt::join(names, " "));
  };
  const MixingCounts all = counts();
  std::vector<std::string> lines = {
      fmt::format("round {} of {} on {}, {} together: hears {}, is heard by {}; losses {}",
                  all.rounds, to_string(options_.rule.kind), to_string(options_.rule.topology.kind),
                  order_.size(), listed(in), listed(out), all.losses)};
  if (options_.revision.number == 0) return lines;
  std::string settings = options_.revision.settings;
  while (!settings.empty() && settings.back() == '\n') settings.pop_back();
  for (std::size_t at = 0; (at = settings.find('\n', at)) != std::string::npos;) {
    settings.replace(at, 1, ", ");
  }
  lines.push_back(fmt::format("switched since step {} to {}", ruled_since_, settings));
  return lines;
}

ModeReport MixingMode::report(const Membership& members) const {
  using enum ReportMetric::Kind;
  const MixingCounts all = counts();
  const std::vector<std::string> in = names_of(heard(), members);
  const std::vector<std::string> out = names_of(out_neighbours(), members);
  ReportSection section{
      .name = "mixing",
      .figures = {{"kind", std::string(to_string(options_.rule.kind))},
                  {"topology", std::string(to_string(options_.rule.topology.kind))},
                  {"settings_revision", options_.revision.number},
                  {"settings_since", ruled_since_},
                  {"settings", options_.revision.settings},
                  {"together", std::uint64_t{order_.size()}},
                  {"hears", in},
                  {"heard_by", out},
                  {"rounds", all.rounds},
                  {"generations", all.generations},
                  {"losses", all.losses},
                  {"states_sent", all.states_sent},
                  {"states_adopted", all.states_adopted},
                  {"messages_sent", all.messages_sent},
                  {"message_bytes", all.bytes_sent},
                  {"messages_refused", all.messages_refused}}};
  generations_.add_to(section, course_, members);
  ModeReport report{
      .sections = {std::move(section)},
      .metrics = {{"neighbours", gauge, "Peers that this one hears in the round under way.",
                   static_cast<double>(in.size())},
                  {"rounds_total", counter, "Rounds that this peer has mixed.",
                   static_cast<double>(all.rounds)},
                  {"round_messages_total", counter, "Messages made for neighbours.",
                   static_cast<double>(all.messages_sent)},
                  {"round_messages_refused_total", counter,
                   "Messages of neighbours that could not be read.",
                   static_cast<double>(all.messages_refused)},
                  {"models_fetched_total", counter, "Whole models downloaded.",
                   static_cast<double>(all.states_adopted)}},
      .columns = {{"together", std::to_string(order_.size())},
                  {"rounds", std::to_string(all.rounds)},
                  {"losses", std::to_string(all.losses)},
                  {"models sent", std::to_string(all.states_sent)}},
      .line = fmt::format("rounds {}  with {}  losses {}", all.rounds, order_.size(), all.losses),
      .details = details(in, out)};
  generations_.add_to(report.metrics);
  return report;
}

void MixingMode::start(Time now, std::uint64_t step, bool joins_others) {
  course_.start(now, step, joins_others);
  // Models differ, so a version only says how far a peer is, and that it belongs to this run.
  generations_.agreement().set_version(
      {.step = step,
       .samples = step * options_.batch,
       .lineage = hash_combine(course_.options().run_seed, course_.options().layout_hash)});
}

void MixingMode::tick(Time now, Membership& members, Effects& out, std::vector<Job>& jobs) {
  if (!course_.is_running()) return;
  generations_.set_candidates(now, course_.options().layout_hash, members);
  generations_.join(now, course_, out);
  if (generations_.takes_part(course_)) look_after_generation(now, out);
  const Generations::Change change = generations_.follow(now, course_);
  if (change.left) abandon();
  if (change.entered != nullptr) begin_generation(now, *change.entered, out);
  go_on(now, out);
  next_job(jobs, out);
  generations_.move_on(now, !states_.is_fetching(), *this, course_, members, out);
}

void MixingMode::leave(Time now, Effects& out) {
  course_.leave();
  generations_.leave_for_good(now, course_.phase(), out);
  abandon();
}

// ---- Generations ----

/// Ends the generation if newcomers wait or peers are lost, and takes part in ballots.
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

/// Something is wrong: ends the generation for all.
void MixingMode::disturb(Time now, const std::vector<PeerId>& blamed, Effects& out) {
  if (generations_.disturb(now, blamed, out)) abandon();
}

void MixingMode::peer_gone(Time now, PeerId peer, Effects& out) {
  if (generations_.is_disturbed_by(now, peer, course_.phase())) disturb(now, {peer}, out);
}

void MixingMode::begin_generation(Time now, const Generation& generation, Effects& out) {
  // Messages of the last generation that were not mixed still say what neighbours know.
  if (told_ && traits_of(options_.rule).keeps_copies) {
    take_messages(unbounded_staleness, left_over_);
  }
  told_ = false;
  order_ = generation.order;
  std::ranges::sort(order_);  // Ranks go by id; a generation may order peers in another way.
  rank_ = static_cast<std::size_t>(std::ranges::find(order_, self_) - order_.begin());
  go_by(generation, out);
  plan_.emplace(options_.rule, order_.size(), course_.options().run_seed);
  round_ = 0;
  box_.enter(generations_.key());
  place_ = MixPlace{
      .rank = rank_, .order = order_, .key = generations_.key(), .step = generation.version.step};
  const auto own = std::ranges::find(generation.order, self_) - generation.order.begin();
  const PeerId source = generation.sources[static_cast<std::size_t>(own)];
  // A peer that lacks a state asks one that has it, and others to confirm it.
  gives_state_ = source == self_ && generation.sources != generation.order;
  if (source != self_) {
    states_.fetch(now, generation, source, false, out);
  } else {
    states_.need_nothing();
    generations_.agreement().set_version(generation.version);
  }
}

/// Adopts the generation's settings revision, if it is new.
void MixingMode::go_by(const Generation& generation, Effects& out) {
  if (generation.revision == options_.revision) return;
  check(adopt(generation.revision).empty(), "settings are judged before a generation has them");
  switches_ = true;
  ruled_since_ = generation.version.step;
  out.tell(AlgorithmSwitched{.settings = generation.revision.settings,
                             .settings_revision = generation.revision.number,
                             .step = generation.version.step});
}

/// Adopts the rule and period of a settings revision, unless it cannot be read.
Problems MixingMode::adopt(const SettingsRevision& revision) {
  if (!options_.read_revision) return Mode::switch_to({}, revision.settings);
  SwitchedMixing switched = options_.read_revision(revision.settings);
  if (!switched.problems.empty()) return std::move(switched.problems);
  options_.rule = std::move(switched.rule);
  options_.period = switched.period;
  options_.revision = revision;
  generations_.agreement().set_in_step(is_in_step(options_.rule));
  return {};
}

/// When the work under way is done, all peers begin a generation with these settings.
Problems MixingMode::switch_to(Time now, std::string_view settings) {
  if (!options_.read_revision) return Mode::switch_to(now, settings);
  if (course_.is_leaving() || course_.phase() == Phase::done) {
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
    generations_.agreement().set_revision(
        {generations_.agreement().revision().number + 1, std::string(settings)});
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
  return std::min(options_.period, course_.steps() - std::min(course_.steps(), step));
}

/// True if we are a centre that rests. Alone, it would have no steps of others to follow.
bool MixingMode::rests() const {
  return options_.rule.centre_rests && rank_ == 0 && order_.size() > 1;
}

/// Appends the messages of rounds up to `last` that have arrived and were not taken yet.
void MixingMode::take_messages(std::uint64_t last, std::vector<MixMessage>& to) {
  std::ranges::move(box_.take(last, order_), std::back_inserter(to));
}

/// True if all messages for which the round waits are there.
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
  // A round ends only when no job is under way, so messages of the last round are mixed already.
  if (!sent_ || ends_ || course_.jobs_under_way() > 0 || !is_complete()) return;
  const std::uint64_t staleness = options_.rule.staleness;
  ends_ = round_;
  take_messages(staleness == 0 ? round_ : unbounded_staleness, arrived_);
  sent_ = false;
  ++round_;
  if (is_in_step(options_.rule)) box_.close_before(round_ - std::min(round_, staleness));
  const ModelVersion before = generations_.agreement().version();
  const std::uint64_t steps = steps_at(before.step);
  ModelVersion after = before;
  after.step += steps;
  after.samples += steps * options_.batch * order_.size();
  generations_.agreement().set_version(after);
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
  const bool busy = course_.jobs_under_way() > 0 || states_.is_fetching();
  switch (generations_.receive(now, from, message, busy, !course_.is_leaving(), planner_, out)) {
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

/// Sends our state, or sketches of it, to the peers that have asked, once a job has copied it.
void MixingMode::serve(Effects& out) {
  const Generation* generation = generations_.current();
  if (state_ && generation != nullptr)
    counts_.states_sent += states_.send(*generation, state_, false, out);
}

void MixingMode::receive_block(Time now, PeerId from, const Block& block, Effects& out) {
  const std::uint64_t session = block.id.session;
  if (block.id.kind == TransferKind::state) {
    states_.receive(now, from, block, out);
  } else if (block.id.kind == TransferKind::mixing &&
             (session == generations_.key() ||
              session == key_of(generations_.agreement().promised()))) {
    box_.receive(from, block);
    go_on(now, out);
  }
}

void MixingMode::lane_lost(Time now, PeerId peer, Effects& out) {
  // Lanes to a peer that we refuse are closed, and nobody waits for what would have come.
  if (!is_in_step(options_.rule) && generations_.agreement().refuses(peer)) return;
  const Generation* generation = generations_.current();
  // Between generations a lost peer should not be waited for.
  const bool concerns = generation == nullptr || (generation->contains(peer) &&
                                                  (course_.phase() != Phase::done || !is_idle()));
  if (concerns) disturb(now, {peer}, out);
}

void MixingMode::lane_refused(Time now, PeerId peer, Effects& out) { lane_lost(now, peer, out); }

// ---- Jobs ----

/// Where the rule sends first, messages are ready before the job is over.
void MixingMode::gradient_ready(Time, std::uint64_t job, std::size_t, Effects& out) {
  if (job == 0 || job != round_job_) return;
  round_job_ = 0;
  if (!outbox_->sound) {
    // It would destroy the models of its neighbours. The others go on without us.
    course_.fail();
    out.tell(GradientNotFinite{.step = step()});
    return;
  }
  send(*outbox_, out);
  sent_ = true;
}

void MixingMode::complete(Time now, JobDone done, Membership&, Effects& out) {
  course_.job_done(done);
  if (done.steps_run > 0) {
    const double busy = seconds(done.busy);
    const auto samples = static_cast<double>(done.steps_run * options_.batch);
    if (busy > 0) generations_.agreement().set_speed(samples / busy);
    course_.learn_from(done.score);
  }
  if (const auto* mixing = first_of<result::Mixing>(done.results)) {
    counts_.messages_refused += mixing->refused;
  }
  if (course_.is_last_job_asked()) return;
  const auto* state = first_of<task::ExportState>(done.job.tasks);
  if (state != nullptr && generations_.current() != nullptr && gives_state_) {
    state_ = state->values;
    serve(out);
  }
  gradient_ready(now, done.job.number, 0, out);
}

void MixingMode::next_job(std::vector<Job>& jobs, Effects& out) {
  if (course_.jobs_under_way() > 0 || course_.is_last_job_asked()) return;
  Job job;
  auto state = states_.take();
  if (state) {
    generations_.agreement().set_version(state->version);
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
  if (state) job.add(task::LoadState{std::move(state->values), state->version.step});
  if (place) {
    const bool switches = std::exchange(switches_, false);
    job.add(task::EnterGeneration{*std::move(place),
                                  switches ? std::make_shared<MixRule>(options_.rule) : nullptr});
    if (gives_state_) {
      job.add(task::ExportState{states_.blank(generations_.agreement().version())});
    }
  }
  if (const auto ended = std::exchange(ends_, std::nullopt)) {
    job.add(task::MixRound{*ended, std::exchange(arrived_, {})});
  }
  const bool saves = course_.is_leaving() || course_.is_save_due(step());
  if (course_.is_leaving()) {
    course_.make_next_job_last();
  } else if (takes_part && !sent_ && step() < course_.steps()) {
    begin_round(job);
  }
  if (saves) job.add(task::Save{});
  if (job.tasks.empty()) return;
  job.version = generations_.agreement().version();
  course_.post(std::move(job), jobs);
}

/// Adds the steps and the messages of the round to the job.
void MixingMode::begin_round(Job& job) {
  outbox_ = std::make_shared<MixOutbox>();
  round_job_ = course_.next_job_number();
  const task::TakeSteps steps{steps_at(step()), rests()};
  const task::SendRound messages{round_, outbox_};
  job.add(task::BeginRound{round_});
  if (options_.rule.order == MixOrder::combine_then_adapt) {
    job.add(messages);
    job.add(steps);
  } else {
    job.add(steps);
    job.add(messages);
  }
}

}  // namespace gv
