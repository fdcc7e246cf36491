// Runs the tasks of a job on a whole model.
#include "peer/node/whole_replica.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string_view>
#include <utility>

#include "base/check.hpp"
#include "base/fingerprint.hpp"
#include "base/magnitude.hpp"
#include "base/overloaded.hpp"
#include "base/rng.hpp"
#include "base/wide.hpp"
#include "consensus/compression/compressors.hpp"
#include "peer/node/hyperparameters.hpp"
#include "peer/node/swarm_note.hpp"

namespace gv {
namespace {

/// The outer momentum's name among an optimiser's vectors.
constexpr const char* outer_name = "outer_momentum";
/// Prefix of the names of vectors that mixing keeps.
constexpr std::string_view mixing_prefix = "mixing_";
/// Prefix of the names of vectors that a gradient compressor keeps.
constexpr std::string_view gradient_prefix = "gradient_";
/// The note that holds the conservation checksum.
constexpr const char* checksum_note = "conservation_checksum";

GV_WIDE void add_scaled(float* __restrict x, const float* __restrict force, std::size_t n,
                        float scale) {
  for (std::size_t i = 0; i < n; ++i) x[i] += scale * force[i];
}

using Named = GradientCompressor::Named;

void append(std::string_view prefix, Named vectors, OptimizerState& state) {
  for (auto& [name, values] : vectors) {
    state.vectors.emplace_back(std::string(prefix).append(name), std::move(values));
  }
}

/// Removes the vectors at the end of `state` whose names begin with `prefix`, and returns them in
/// the same order, with the prefix removed from their names.
Named take(std::string_view prefix, OptimizerState& state) {
  Named taken;
  while (!state.vectors.empty() && state.vectors.back().first.starts_with(prefix)) {
    auto& [name, values] = state.vectors.back();
    taken.emplace_back(name.substr(prefix.size()), std::move(values));
    state.vectors.pop_back();
  }
  std::ranges::reverse(taken);
  return taken;
}

/// Returns the mean gradient, but corrects values that are too large or not finite, which codes
/// from other peers may contain. If there are any, the result is in `corrected`; otherwise it is
/// `mean` itself.
std::span<const float> bounded(std::span<const float> mean, std::vector<float>& corrected) {
  if (largest_magnitude(mean) <= largest_gradient) return mean;
  corrected.assign(mean.begin(), mean.end());
  for (float& value : corrected) {
    if (!std::isfinite(value)) value = 0;
  }
  bound_gradient(corrected);
  return corrected;
}

/// Measures the model of a member of a population on the validation data.
void validate(Tunable* tunable, JobDone& done) {
  if (tunable == nullptr) return;
  const double loss = tunable->validation_loss();
  done.results.emplace_back(result::Validation{loss, tunable->hyperparameters()});
}

}  // namespace

WholeReplica::WholeReplica(std::unique_ptr<Learner> learner, std::uint64_t peer,
                           const LocalSteps& local)
    : learner_(std::move(learner)),
      outer_(local, learner_->layout().size()),
      checksum_(initial_checksum(peer)),
      compressor_(make_compressor({}, learner_->layout().size())) {}

void WholeReplica::mix_by(const MixRule& rule, std::uint64_t run_seed) {
  mixer_.emplace(rule, learner_->layout().size(), run_seed,
                 static_cast<double>(learner_->samples()));
  learner_->hold_steps(true);
}

std::size_t WholeReplica::state_size() const {
  return learner_->layout().size() + learner_->optimizer_size() + outer_.momentum().size();
}

OptimizerState WholeReplica::optimizer_state() const {
  OptimizerState state = learner_->optimizer_state();
  const auto momentum = outer_.momentum();
  if (!momentum.empty()) {
    state.vectors.emplace_back(outer_name, std::vector(momentum.begin(), momentum.end()));
  }
  append(gradient_prefix, asked_for_ ? compressor_->lasting() : restored_, state);
  if (mixer_) {
    Named kept;
    for (auto& [name, values] : mixer_->lasting()) {
      kept.emplace_back(name, std::move(values));
    }
    append(mixing_prefix, std::move(kept), state);
  }
  if (const Tunable* tunable = learner_->tunable()) {
    state.hyperparameters = tunable->hyperparameters();
  }
  return state;
}

std::vector<ReplicaPart> WholeReplica::parts() const {
  std::string checksum;
  for (const std::int64_t lane : checksum_) {
    checksum += (checksum.empty() ? "" : " ") + std::to_string(lane);
  }
  Notes notes{{checksum_note, std::move(checksum)}};
  write(swarm_note_, notes);
  return {{.stage = {},
           .layout = &learner_->layout(),
           .parameters = learner_->parameters(),
           .optimizer = optimizer_state(),
           .notes = std::move(notes)}};
}

std::string WholeReplica::restore(ReplicaPart part) {
  // A run may continue in another mode, so vectors that only the previous mode used are dropped.
  OptimizerState& state = part.optimizer;
  const Named mixed = take(mixing_prefix, state);
  Named waiting = take(gradient_prefix, state);
  std::vector<float> momentum(outer_.momentum().size());
  if (!state.vectors.empty() && state.vectors.back().first == outer_name) {
    if (!momentum.empty()) momentum = std::move(state.vectors.back().second);
    state.vectors.pop_back();
    if (momentum.size() != outer_.momentum().size()) return "the outer momentum has another size";
  }
  std::string problem = learner_->restore(part.parameters, state);
  if (!problem.empty()) return problem;
  outer_.adopt(momentum);
  restored_ = std::move(waiting);
  if (Tunable* tunable = learner_->tunable(); tunable != nullptr && state.hyperparameters) {
    tunable->set_hyperparameters(*state.hyperparameters);
  }
  if (mixer_) {
    for (const auto& [name, values] : mixed) mixer_->restore(name, values);
  }
  // Text that is not a checksum is ignored.
  std::istringstream text(part.notes[checksum_note]);
  ConservationChecksum checksum{};
  for (std::int64_t& lane : checksum) text >> lane;
  if (text) checksum_ = checksum;
  swarm_note_ = swarm_note_in(part.notes);
  return problem;
}

/// Makes our own instance of the compressor if a job names a different compressor from the previous
/// job.
void WholeReplica::compress_by(const std::shared_ptr<const GradientCompressor>& compressor) {
  if (!compressor || compressor == asked_for_) return;
  asked_for_ = compressor;
  compressor_ = compressor->blank();
  for (auto& [name, values] : std::exchange(restored_, {})) {
    compressor_->restore(name, std::move(values));
  }
}

/// Computes and encodes our contribution to a collective. Once a value cannot be encoded, the
/// replica announces no more parts.
Score WholeReplica::compute(const task::ComputeGradient& task, std::uint64_t job,
                            result::Gradient& found) {
  if (learner_->arrays() != nullptr) {
    found.array = take_array(task);
    return {};
  }
  bool& is_sound = found.is_sound;
  compress_by(task.compressor);
  const CompressionPlan& plan = task.plan;
  const std::size_t size = learner_->layout().size();
  std::vector<float> apart(plan.in_place ? 0 : size);
  const std::span<float> travels(*task.values);
  const std::span<float> values = plan.in_place ? travels.first(size) : std::span(apart);
  std::size_t encoded_from = size;
  const auto encode_from = [&](std::size_t begin) {
    const Rng draws =
        Rng(learner_->step()).fork("rounding").fork(static_cast<std::uint64_t>(checksum_.front()));
    is_sound =
        is_sound && compressor_->encode(plan, values.subspan(begin, encoded_from - begin),
                                        travels.first(plan.in_place ? 0 : plan.elements), draws);
    encoded_from = begin;
  };
  auto mark = task.marks.begin();
  const auto tell = [&](std::size_t begin, std::size_t) {
    std::optional<std::size_t> reached;
    for (; mark != task.marks.end() && *mark >= begin; ++mark) reached = *mark;
    if (!reached) return;
    encode_from(std::min(*reached, size));
    if (is_sound && hooks_.ready) hooks_.ready(job, encoded_from);
  };
  if (task.of_model) {
    std::ranges::copy(learner_->parameters(), values.begin());
    // If another mode follows, the optimisers' states are averaged as well.
    if (plan.elements > size) learner_->copy_optimizer(travels.subspan(size, plan.elements - size));
    encode_from(0);
    return {};
  }
  if (task.from) learner_->read_from(*task.from);
  const Score score = task.local_steps > 0
                          ? learner_->local_steps(task.local_steps, task.samples, values)
                          : learner_->gradient(task.samples, values,
                                               plan.piecewise ? tell : ReadyRange(), plan.factored);
  squares_.reset();
  if (task.measures_square && task.local_steps == 0) {
    const double length = norm_of(values);
    squares_ = {.own = length * length, .own_samples = task.samples};
  }
  encode_from(0);
  return score;
}

/// Waits for the user's next array, and copies it to the task's values. Returns its number of
/// floats; 0 if no array will come.
std::size_t WholeReplica::take_array(const task::ComputeGradient& task) {
  ArraySource& arrays = *learner_->arrays();
  const std::size_t length = arrays.await().value_or(0);
  if (length == 0) return 0;
  Floats& values = *task.values;
  // The vector never shrinks, so its memory is filled only once. Clearing it first avoids a copy of
  // its old content.
  if (values.size() < length + task.behind_array) {
    values.clear();
    values.resize(length + task.behind_array);
  }
  values[length] = arrays.read(std::span(values).first(length));
  return length;
}

/// Takes over a downloaded model. In a population, takes over the whole replica, unless no
/// optimiser can have made the state that came with the model.
void WholeReplica::adopt(const DownloadedModel& fetched) {
  swarm_note_.end.reset();
  // The chunks that only our own model contained are lost with it.
  if (swarm_note_.ledger) swarm_note_.ledger->begun.clear();
  const std::span<const float> values(fetched.values);
  const auto parameters = values.first(learner_->layout().size());
  Tunable* tunable = learner_->tunable();
  const auto tail = tunable != nullptr ? tail_of(values) : std::nullopt;
  if (!tail) {
    learner_->adopt(parameters, fetched.step);
    return;
  }
  const auto optimizer = values.subspan(parameters.size(), learner_->optimizer_size());
  if (!learner_->is_possible(optimizer)) {
    learner_->adopt(parameters, fetched.step);
    return;
  }
  learner_->adopt_state(parameters, optimizer, fetched.step, tail->updates);
  tunable->set_hyperparameters(tail->hyperparameters);
}

/// Returns why another peer's state is refused; Reason::none if it is loaded. `norm` is the norm of
/// the parameters in that state.
Reason WholeReplica::problem_with(const task::LoadState& load, double norm) const {
  const bool has_model = load.norm_cap > 0 && learner_->step() > 0;
  const double longest = load.norm_cap * std::max(norm_of(learner_->parameters()), 1.0);
  if (has_model && !(norm <= longest)) return Reason::norm_exceeded;
  if (load.model_only) return Reason::none;
  const auto rest = std::span<const float>(*load.values).subspan(learner_->layout().size());
  const std::size_t optimizer = learner_->optimizer_size();
  const bool is_possible =
      learner_->is_possible(rest.first(optimizer)) && outer_.is_possible(rest.subspan(optimizer));
  return is_possible ? Reason::none : Reason::impossible;
}

/// Removes the task that loads a refused state, and all tasks after it, from the job.
void WholeReplica::refuse_state(JobDone& done) {
  std::vector<Job::Task>& tasks = done.job.tasks;
  for (auto at = tasks.begin(); at != tasks.end(); ++at) {
    const auto* load = std::get_if<task::LoadState>(&*at);
    if (load == nullptr) continue;
    const double norm =
        norm_of(std::span<const float>(*load->values).first(learner_->layout().size()));
    const Reason why = problem_with(*load, norm);
    if (why == Reason::none) return;
    // A new mixing rule is sent only once and applies to the next generation, so it must not be
    // lost with the task that carries it.
    const auto* enter = first_of<task::EnterGeneration>(tasks);
    if (enter != nullptr && enter->rule) mix_by(*enter->rule, enter->run_seed);
    tasks.erase(at, tasks.end());
    done.results.emplace_back(result::StateRefused{why, norm});
    return;
  }
}

/// Updates the swarm's note before another model replaces ours, or before a sum changes ours. Takes
/// over `end_note` (see LoadState::end_note) or, if that is null, drops the noted end of a run.
void WholeReplica::note_end(const std::shared_ptr<const SwarmNote>& end_note) {
  if (end_note) {
    swarm_note_ = *end_note;
  } else {
    swarm_note_.end.reset();
  }
}

void WholeReplica::load_state(const task::LoadState& state) {
  note_end(state.end_note);
  const std::span<const float> values(*state.values);
  const auto parameters = values.first(learner_->layout().size());
  if (state.model_only) {
    learner_->adopt_model(parameters, state.step);
    return;
  }
  const auto optimizer = values.subspan(parameters.size(), learner_->optimizer_size());
  if (state.own_optimizer && learner_->updates() > 0) {
    learner_->adopt_model(parameters, state.step);
  } else {
    // In mode `allreduce`, every step is an update, so the step is also the number of updates.
    learner_->adopt_state(parameters, optimizer, state.step, state.step);
  }
  outer_.adopt(values.subspan(parameters.size() + optimizer.size()));
  compressor_->clear();
  restored_.clear();
  if (mixer_) mixer_->forget();
}

void WholeReplica::export_state(std::span<float> state) const {
  const std::size_t elements = learner_->layout().size();
  const std::size_t optimizer = learner_->optimizer_size();
  std::ranges::copy(learner_->parameters(), state.begin());
  if (state.size() == elements) return;
  learner_->copy_optimizer(state.subspan(elements, optimizer));
  std::ranges::copy(outer_.momentum(), state.subspan(elements + optimizer).begin());
}

/// Takes over the mean of the peers' models and optimisers. A hostile peer may have brought values
/// into the mean that no optimiser can have made. A negative second moment, for example, would make
/// parameters NaN in the next step. The optimiser then starts from its initial state.
void WholeReplica::become(std::span<const float> model, std::span<const float> optimizer,
                          std::uint64_t step) {
  std::vector<float> initial;
  if (!learner_->is_possible(optimizer)) {
    initial.resize(optimizer.size());
    optimizer = initial;
  }
  // All peers have the same mean, so all make the same decision. They also count as many updates as
  // a peer that downloads this state later (see load_state()).
  learner_->adopt_state(model, optimizer, step, step);
}

void WholeReplica::update(const task::ApplyUpdate& update, JobDone& done) {
  if (ArraySource* arrays = learner_->arrays(); arrays != nullptr) {
    const std::size_t length = update.plan.elements;
    arrays->write(std::span(*update.values).first(length), (*update.values)[length],
                  update.samples);
    return;
  }
  note_end(update.end_note);
  const std::size_t size = learner_->layout().size();
  std::vector<float> corrected;
  const auto decoded = compressor_->decode(update.plan, *update.values).first(size);
  const auto mean = update.plan.in_place ? decoded : bounded(decoded, corrected);
  if (update.becomes_model_at && update.plan.elements > size) {
    const auto optimizer =
        std::span<const float>(*update.values).subspan(size, update.plan.elements - size);
    become(mean, optimizer, *update.becomes_model_at);
  } else if (update.becomes_model_at) {
    learner_->adopt_model(mean, *update.becomes_model_at);
  } else if (update.local_steps == 0) {
    learner_->update(mean, update.samples);
    if (auto squares = std::exchange(squares_, std::nullopt)) {
      const double length = norm_of(mean);
      squares->mean = length * length;
      squares->samples = update.samples;
      done.results.emplace_back(*squares);
    }
  } else {
    const auto parameters = learner_->parameters();
    std::vector<float> model(parameters.begin(), parameters.end());
    outer_.step(model, mean);
    learner_->end_local_steps(model, update.local_steps);
  }
}

/// The new mode begins without the previous mode's messages, references and errors.
void WholeReplica::part_from_mode() {
  mixer_.reset();
  learner_->hold_steps(false);
  asked_for_.reset();
  compressor_ = make_compressor({}, learner_->layout().size());
  restored_.clear();
  squares_.reset();
}

void WholeReplica::add(const std::vector<Force>& forces) {
  swarm_note_.end.reset();
  learner_->change_by_others([&](std::span<float> x) {
    for (const Force& force : forces) {
      check(force.values->size() == x.size(), "a force has the layout's size");
      add_scaled(x.data(), force.values->data(), x.size(), force.scale);
    }
  });
  for (const Force& force : forces) gv::add(checksum_, force.checksum);
}

/// Reports a change that left parameters at their bound, unless the change before it did so too.
void WholeReplica::report_if_held(JobDone& done) {
  const std::uint64_t held = learner_->held();
  const bool was_held = std::exchange(is_held_, held > std::exchange(held_, held));
  if (is_held_ && !was_held) done.results.emplace_back(result::ModelHeld{});
}

void WholeReplica::fill(const task::TakeSnapshot& task) const {
  Snapshot& snapshot = *task.snapshot;
  const auto parameters = learner_->parameters();
  snapshot.values.assign(parameters.begin(), parameters.end());
  snapshot.checksum = checksum_;
  snapshot.step = learner_->step();
  snapshot.rest.clear();
  const Tunable* tunable = learner_->tunable();
  if (!task.with_rest || tunable == nullptr) return;
  snapshot.rest.resize(learner_->optimizer_size());
  learner_->copy_optimizer(snapshot.rest);
  append({tunable->hyperparameters(), learner_->updates()}, snapshot.rest);
}

void WholeReplica::at_pace(std::uint64_t steps, const std::function<void()>& make) const {
  if (hooks_.pace) {
    hooks_.pace(steps, make);
  } else {
    make();
  }
}

Score WholeReplica::take_steps(const task::TakeSteps& task) {
  swarm_note_.end.reset();
  Score score;
  Learner::Direct direct;
  if (mixer_ && mixer_->directs()) {
    direct = [this](std::span<float> gradient) { mixer_->direct(gradient); };
  }
  if (task.from) learner_->read_from(*task.from);
  double learning_rate = task.rests ? 0 : learner_->learning_rate();
  if (task.rests) {
    learner_->go_on_at(learner_->step() + task.count);
  } else {
    at_pace(task.count, [&] { score = learner_->run_steps(task.count, direct); });
  }
  // A user's loop may know its learning rate only after it has begun.
  if (learning_rate == 0 && !task.rests) learning_rate = learner_->learning_rate();
  if (mixer_) {
    // A rule's memory contains values from other peers, so this counts as a change by others.
    learner_->change_by_others(
        [&](std::span<float> x) { mixer_->end_steps(x, learning_rate, task.count); });
  }
  return score;
}

void WholeReplica::enter(const task::EnterGeneration& task) {
  if (task.rule) mix_by(*task.rule, task.run_seed);
  const MixPlace& place = task.place;
  learner_->go_on_at(place.step);
  mixer().begin_generation(place.rank, place.order, place.key, live(), place.hosts);
}

void WholeReplica::follow(const task::FollowSwarm& task) {
  learner_->set_progress(task.progress);
  learner_->set_update_factor(task.factor);
  learner_->set_batch_growth(task.batch_growth);
  const std::optional<RunEnd> end = swarm_note_.end;
  swarm_note_ = task.note;
  if (!swarm_note_.end) swarm_note_.end = end;
}

Mixer<float>& WholeReplica::mixer() {
  check(mixer_.has_value(), "only a replica that mixes by a rule is asked to mix");
  return *mixer_;
}

void WholeReplica::mix(task::MixRound& round, JobDone& done) {
  std::size_t refused = 0;
  learner_->change_by_others([&](std::span<float> parameters) {
    refused = mixer().mix(round.round, parameters, std::exchange(round.arrived, {}),
                          learner_->parameter_bound());
  });
  done.results.emplace_back(result::Mixing{refused, mixer().held_back()});
}

JobDone WholeReplica::run(Job job) {
  JobDone done{.job = std::move(job)};
  refuse_state(done);
  std::uint64_t begin = learner_->step();
  Overloaded carry_out{
      [&](const task::AdoptModel& task) {
        adopt(task.model);
        begin = learner_->step();
      },
      [&](const task::LoadState& task) {
        load_state(task);
        begin = learner_->step();
      },
      [&](const task::ApplyUpdate& task) {
        update(task, done);
        report_if_held(done);
      },
      [&](const task::TakeFingerprint&) {
        done.results.emplace_back(result::Fingerprint{fingerprint(learner_->parameters())});
      },
      [&](const task::ExportState& task) { export_state(*task.values); },
      [&](const task::AddForces& task) {
        add(task.forces);
        report_if_held(done);
      },
      [&](const task::FollowSwarm& task) { follow(task); },
      [&](const task::TakeSteps& task) { done.score = take_steps(task); },
      [&](const task::ComputeGradient& task) {
        result::Gradient gradient{.samples = task.all_samples()};
        at_pace(std::max<std::uint64_t>(1, task.local_steps),
                [&] { done.score = compute(task, done.job.number, gradient); });
        done.results.emplace_back(gradient);
      },
      [&](const task::Validate&) { validate(learner_->tunable(), done); },
      [&](const task::Measure&) {
        done.results.emplace_back(result::Measured{learner_->test_merit()});
      },
      [&](const task::TakeSnapshot& task) { fill(task); },
      [&](const task::PartFromMode&) { part_from_mode(); },
      [&](const task::LeaveGeneration& task) {
        // A replica that is about to mix for the first time has no generation to close.
        if (mixer_) mixer_->close_generation(task.left_over, task.unsent);
      },
      [&](const task::EnterGeneration& task) {
        enter(task);
        begin = learner_->step();
      },
      [&](task::MixRound& task) {
        mix(task, done);
        report_if_held(done);
      },
      [&](const task::BeginRound& task) {
        learner_->change_by_others([&](std::span<float> x) { mixer().begin_round(task.round, x); });
      },
      [&](const task::SendRound& task) {
        *task.outbox = {mixer().messages(task.round, live()), mixer().is_sound()};
        if (hooks_.ready) hooks_.ready(done.job.number, 0);
      },
      [](const task::Save&) {},
      [](const auto&) { check(false, "a whole model is given no task of stages"); },
  };
  for (Job::Task& task : done.job.tasks) std::visit(carry_out, task);
  done.step = learner_->step();
  done.steps_run = done.step - begin;
  done.learning_rate = learner_->learning_rate();
  return done;
}

}  // namespace gv
