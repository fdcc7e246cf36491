// Runs the jobs of a pipeline's stages.
#include "peer/node/stage_replica.hpp"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "base/magnitude.hpp"

namespace gv {

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
    learner_->update(end.stage, std::span<const float>(*end.sum).first(size), end.micro_batches);
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
  std::vector<float> force(size);
  for (std::size_t i = 0; i < size; ++i) force[i] = mean[i] - snapshot[i];
  learner_->add(end.stage, force, end.force);
}

Score StageReplica::carry_out(const StageOrder& order) {
  const PipelineInstruction& what = order.what;
  const auto floats = [](const StageValues& values) {
    return values ? std::span<float>(*values) : std::span<float>();
  };
  const std::size_t size = learner_->layout(what.stage).size();
  if (order.copies_parameters) {
    const auto rest = std::ranges::copy(learner_->parameters(what.stage), order.out->begin()).out;
    std::ranges::copy(floats(order.sum).subspan(size), rest);
    return {};
  }
  if (order.mixing) {
    mixers_->send(what.stage, *order.mixing, learner_->parameters(what.stage));
    return {};
  }
  const auto gradient = order.sum ? floats(order.sum).first(size) : std::span<float>();
  const auto count = [&] { (*order.sum)[size + what.micro_batch] += 1; };
  if (stand_in_ && what.action != PipelineAction::update) {
    stand_in_(what);
    if (order.sum) count();
    return {};
  }
  switch (what.action) {
    case PipelineAction::forward:
      return learner_->forward(what.stage, what.micro_batch, order.draw, what.version,
                               floats(order.in), floats(order.out));
    case PipelineAction::backward:
      learner_->backward(what.stage, what.micro_batch, floats(order.in), floats(order.out),
                         gradient);
      count();
      break;
    case PipelineAction::backward_input:
      learner_->backward_input(what.stage, what.micro_batch, floats(order.in), floats(order.out));
      break;
    case PipelineAction::backward_weight:
      learner_->backward_weight(what.stage, what.micro_batch, gradient);
      count();
      break;
    case PipelineAction::update:
      learner_->update(what.stage, gradient, order.micro_batches);
      std::ranges::fill(gradient, 0.0F);
      break;
  }
  return {};
}

JobDone StageReplica::run(Job job) {
  JobDone done{.number = job.number};
  const std::uint64_t before = learner_->step();
  if (job.stages) {
    StageJob& work = *job.stages;
    if (work.abandons) learner_->abandon_run();
    for (const StageEnd& one : work.ends) end(one);
    if (!work.ends.empty()) learner_->end_run(work.drawn);
    for (const StageCopy& copy : work.export_states) learner_->copy_state(copy.stage, *copy.values);
    if (work.moves_to) learner_->move_to(*work.moves_to);
    for (const StageLoad& load_states : work.load_states) {
      if (load_states.values) {
        learner_->adopt_state(load_states.stage, *load_states.values);
      } else {
        learner_->release(load_states.stage);
        learner_->take_up(load_states.stage);
      }
    }
    for (const std::uint32_t stage : work.release) learner_->release(stage);
    for (const StageCopy& copy : work.copies) learner_->copy_state(copy.stage, *copy.values);
    version_ = work.version;
    if (work.order) {
      done.score = carry_out(*work.order);
      const StageValues& sum = work.order->sum;
      const auto& mixing = work.order->mixing;
      done.gradient_writable = mixing ? mixing->outbox->sound : !sum || is_finite(*sum);
    }
  }
  done.step = learner_->step();
  done.steps_run = done.step - before;
  done.learning_rate = learner_->learning_rate();
  done.stages = std::move(job.stages);
  return done;
}

}  // namespace gv
