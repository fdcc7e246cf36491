// Runs the tasks of a job on stages.
#include "peer/node/stage_replica.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <utility>

#include "base/check.hpp"
#include "base/overloaded.hpp"
#include "consensus/compression/gradient_compressor.hpp"

namespace gv {
namespace {

/// The note that holds the version of the stages.
constexpr const char* version_note = "model_version";
/// The note that says which slices a stage's checkpoint has: the first, and one past the last.
constexpr const char* slices_note = "slices";

std::vector<std::size_t> slices_by_stage(const StageLearner& learner) {
  std::vector<std::size_t> slices;
  for (std::size_t stage = 0; stage < learner.stages(); ++stage) {
    slices.push_back(learner.slices(stage));
  }
  return slices;
}

std::span<float> floats_in(const StageValues& values) {
  return values ? std::span<float>(*values) : std::span<float>();
}

}  // namespace

std::optional<ModelVersion> version_of(const std::map<std::string, std::string>& notes) {
  const auto found = notes.find(version_note);
  if (found == notes.end()) return std::nullopt;
  std::istringstream in(found->second);
  ModelVersion version;
  in >> version.step >> version.samples >> version.lineage;
  return in ? std::optional(version) : std::nullopt;
}

std::optional<Range> slices_of(const std::map<std::string, std::string>& notes) {
  const auto found = notes.find(slices_note);
  if (found == notes.end()) return std::nullopt;
  std::istringstream in(found->second);
  Range slices;
  in >> slices.begin >> slices.end;
  return in && slices.begin <= slices.end ? slices : Range{};
}

Range held_slices(const StageLearner& learner, std::size_t stage,
                  const std::map<std::string, std::string>& notes) {
  const Range all{0, learner.slices(stage)};
  const Range held = slices_of(notes).value_or(all);
  return held.end <= all.end ? held : all;
}

StageReplica::StageReplica(std::unique_ptr<StageLearner> learner)
    : learner_(std::move(learner)), parts_(slices_by_stage(*learner_)) {}

PartOfStage StageReplica::named(std::uint32_t part) const {
  PartOfStage named{.stage = parts_.stage_of(part)};
  if (parts_.is_slice(part)) named.slice = parts_.slice_of(part);
  return named;
}

std::vector<std::uint32_t> StageReplica::held_parts() const {
  std::vector<std::uint32_t> held;
  for (std::uint32_t part = 0; part < parts_.count(); ++part) {
    if (holds(part)) held.push_back(part);
  }
  return held;
}

bool StageReplica::holds(std::uint32_t part) const {
  const PartOfStage one = named(part);
  if (!learner_->carries(one.stage)) return false;
  const Range slices = learner_->held(one.stage);
  return !one.slice || (*one.slice >= slices.begin && *one.slice < slices.end);
}

StageValues StageReplica::state(std::uint32_t part) const {
  auto values = std::make_shared<Floats>(learner_->state_size(named(part)));
  learner_->copy_state(named(part), *values);
  return values;
}

std::vector<float> StageReplica::part(std::uint32_t part) const {
  if (part >= parts_.count() || !holds(part)) return {};
  const StageValues all = state(part);
  return {all->begin(), all->begin() + static_cast<std::ptrdiff_t>(learner_->size(named(part)))};
}

template <class T>
HeldValues<T> StageReplica::gradients(std::uint32_t stage, const StageValues& common,
                                      const StageValues& slices) const {
  HeldValues<T> values(std::span<T>(*common).first(learner_->size({.stage = stage})));
  if (!slices) return values;
  const Range held = learner_->held(stage);
  std::size_t size = 0;
  for (std::size_t s = held.begin; s < held.end; ++s) {
    size += learner_->size({.stage = stage, .slice = s});
  }
  values.slices = std::span<T>(*slices).first(size);
  return values;
}

void StageReplica::mix_by(const MixRule& rule, std::uint64_t run_seed) {
  std::vector<std::size_t> sizes;
  for (std::size_t stage = 0; stage < learner_->stages(); ++stage) {
    sizes.push_back(learner_->layout(stage).size());
  }
  mixers_.emplace(rule, run_seed, sizes);
}

void StageReplica::end(const StageEnd& end) {
  const std::size_t size = learner_->layout(end.stage).size();
  if (end.sum) {
    learner_->update(end.stage, gradients<const float>(end.stage, end.sum, end.slices),
                     end.micro_batches);
  }
  if (end.round) {
    learner_->set(end.stage, mixers_->mixed(end, learner_->parameters(end.stage)));
  }
  if (!end.mean) return;
  const auto mean = std::span<const float>(*end.mean).first(size);
  if (!end.snapshot) {
    learner_->set(end.stage, mean);
    return;
  }
  const auto snapshot = std::span<const float>(*end.snapshot).first(size);
  const std::vector<float> force = pair_force(mean, snapshot);
  if (!force.empty()) learner_->add(end.stage, force, end.force);
}

/// Makes a pass that is part of a test. Only forward passes compute; the others only report that
/// the micro-batch has reached the last stage.
void StageReplica::test(const task::StagePass& task) {
  const PipelineInstruction& what = task.what;
  if (what.action != PipelineAction::forward) {
    if (task.out) std::ranges::fill(*task.out, 0.0F);
    return;
  }
  if (task.group) {
    learner_->test_part({.stage = what.stage, .number = what.micro_batch, .part = task.part},
                        *task.group, task.draw, floats_in(task.in), floats_in(task.out));
  } else {
    learner_->test(what.stage, task.draw, floats_in(task.in), floats_in(task.out));
  }
}

Score StageReplica::pass(const task::StagePass& task) {
  const PipelineInstruction& what = task.what;
  if (what.tests) {
    test(task);
    return {};
  }
  HeldValues<float> gradient{std::span<float>()};
  if (task.sum) gradient = gradients<float>(what.stage, task.sum, task.slices);
  const auto count = [&] {
    (*task.sum)[gradient.common.size() + task.counted_at] += 1;
    if (!task.slices) return;
    const auto counts = floats_in(task.slices).subspan(gradient.slices.size());
    const std::size_t micro_batches = counts.size() / learner_->held(what.stage).size();
    for (std::size_t i = what.micro_batch; i < counts.size(); i += micro_batches) counts[i] += 1;
  };
  if (hooks_.stand_in && what.action != PipelineAction::update) {
    hooks_.stand_in(what);
    if (task.group && task.out) std::ranges::fill(*task.out, 0.0F);
    if (task.sum) count();
    return {};
  }
  if (task.group && what.action == PipelineAction::forward) {
    return learner_->forward_part(
        {.stage = what.stage, .number = what.micro_batch, .part = task.part}, *task.group,
        task.draw, floats_in(task.in), floats_in(task.out));
  }
  if (task.group && what.action != PipelineAction::backward_weight) {
    learner_->backward_part({.stage = what.stage, .number = what.micro_batch, .part = task.part},
                            floats_in(task.in), floats_in(task.out));
    if (!task.sum) return {};
    learner_->backward_weight(what.stage, what.micro_batch, gradient);
    count();
    return {};
  }
  switch (what.action) {
    case PipelineAction::forward:
      return learner_->forward(what.stage, what.micro_batch, task.draw, what.version,
                               floats_in(task.in), floats_in(task.out));
    case PipelineAction::backward:
      learner_->backward(what.stage, what.micro_batch, floats_in(task.in), floats_in(task.out),
                         gradient);
      count();
      break;
    case PipelineAction::backward_input:
      learner_->backward_input(what.stage, what.micro_batch, floats_in(task.in),
                               floats_in(task.out));
      break;
    case PipelineAction::backward_weight:
      learner_->backward_weight(what.stage, what.micro_batch, gradient);
      count();
      break;
    case PipelineAction::update:
      learner_->update(what.stage, gradient, task.micro_batches);
      std::ranges::fill(gradient.common, 0.0F);
      std::ranges::fill(gradient.slices, 0.0F);
      break;
  }
  return {};
}

std::span<const float> StageReplica::stage(std::size_t stage) const {
  return learner_->carries(stage) ? learner_->parameters(stage) : std::span<const float>();
}

std::vector<Range> StageReplica::stage_ranges(std::size_t stage) const {
  return learner_->carries(stage) ? learner_->held_ranges(stage) : std::vector<Range>();
}

std::vector<ReplicaPart> StageReplica::parts() const {
  std::vector<ReplicaPart> parts;
  for (std::size_t stage = 0; stage < learner_->stages(); ++stage) {
    if (!learner_->carries(stage)) continue;
    Notes notes{
        {version_note, fmt::format("{} {} {}", version_.step, version_.samples, version_.lineage)}};
    write(swarm_note_, notes);
    const Range held = learner_->held(stage);
    if (held.size() < learner_->slices(stage)) {
      notes[slices_note] = fmt::format("{} {}", held.begin, held.end);
    }
    parts.push_back({.stage = static_cast<std::uint32_t>(stage),
                     .layout = &learner_->held_layout(stage),
                     .parameters = learner_->parameters(stage),
                     .optimizer = learner_->optimizer_state(stage),
                     .notes = std::move(notes)});
  }
  return parts;
}

std::string StageReplica::restore(ReplicaPart part) {
  const std::uint32_t stage = part.stage.value();
  learner_->take_up(stage, held_slices(*learner_, stage, part.notes));
  std::string problem = learner_->restore(stage, part.parameters, part.optimizer);
  if (problem.empty()) swarm_note_ = swarm_note_in(part.notes);
  return problem;
}

void StageReplica::load(const task::LoadStages& task) {
  // A stage that begins from the seed resets all its parts and forgets their earlier state.
  for (const StageCopy& state : task.states) {
    const PartOfStage part = named(state.part);
    if (!state.values && !part.slice) learner_->release(part.stage);
  }
  for (const task::HeldSlices& held : task.held) learner_->take_up(held.stage, held.slices);
  for (const StageCopy& state : task.states) {
    if (state.values) learner_->adopt_state(named(state.part), *state.values);
  }
}

void StageReplica::copy(const std::vector<StageCopy>& copies) const {
  for (const StageCopy& one : copies) learner_->copy_state(named(one.part), *one.values);
}

bool StageReplica::copy(const task::CopyParameters& task) const {
  const std::span<const float> parameters = learner_->parameters(task.stage);
  const auto counts = std::ranges::copy(parameters, task.out->begin()).out;
  std::ranges::copy(std::span<const float>(*task.sum).subspan(parameters.size()), counts);
  return bound_gradient(*task.out);
}

JobDone StageReplica::run(Job job) {
  JobDone done{.job = std::move(job)};
  const std::uint64_t before = learner_->step();
  const std::uint64_t held_before = learner_->held();
  const Overloaded carry_out{
      [&](const task::AbandonRun&) { learner_->abandon_run(); },
      [&](const task::EndRun& task) {
        for (const StageEnd& one : task.ends) end(one);
        learner_->end_run(task.drawn);
      },
      [&](const task::ExportStages& task) { copy(task.copies); },
      [&](const task::MoveTo& task) { learner_->move_to(task.step); },
      [&](const task::LoadStages& task) { load(task); },
      [&](const task::ReleaseStages& task) {
        for (const std::uint32_t stage : task.stages) learner_->release(stage);
      },
      [&](const task::CopyStages& task) { copy(task.copies); },
      [&](const task::StagePass& task) {
        done.score = pass(task);
        const bool is_sound = (!task.sum || bound_gradient(*task.sum)) &&
                              (!task.slices || bound_gradient(*task.slices)) &&
                              (!task.out || bound_gradient(*task.out));
        done.results.emplace_back(result::StagePart{is_sound});
      },
      [&](const task::CopyParameters& task) {
        done.results.emplace_back(result::StagePart{copy(task)});
      },
      [&](const task::SendStage& task) {
        mixers_->send(task, learner_->parameters(task.stage));
        done.results.emplace_back(result::StagePart{task.outbox->sound});
      },
      [&](const task::Measure&) {
        done.results.emplace_back(result::Measured{learner_->test_merit()});
      },
      [&](const task::FollowSwarm& task) { swarm_note_ = task.note; },
      [](const task::Save&) {},
      [](const auto&) { check(false, "stages are given no task of a whole model"); },
  };
  for (const Job::Task& task : done.job.tasks) std::visit(carry_out, task);
  // Some schedules make updates within a run, so check after every job.
  held_in_run_ |= learner_->held() > held_before;
  if (first_of<task::EndRun>(done.job.tasks) != nullptr) {
    const bool was_held = std::exchange(is_held_, std::exchange(held_in_run_, false));
    if (is_held_ && !was_held) done.results.emplace_back(result::ModelHeld{});
  }
  version_ = done.job.version;
  done.step = learner_->step();
  done.steps_run = done.step - before;
  done.learning_rate = learner_->learning_rate();
  return done;
}

}  // namespace gv
