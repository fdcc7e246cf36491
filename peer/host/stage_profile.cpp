// Measures layers, stages and whole steps.
#include "peer/host/stage_profile.hpp"

#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "base/check.hpp"
#include "peer/config/config_settings.hpp"
#include "train/built_in_learner.hpp"
#include "train/data/sampler.hpp"
#include "train/layers/initial_values.hpp"
#include "train/layers/network.hpp"
#include "train/layers/plan.hpp"
#include "train/model.hpp"
#include "train/optimizer.hpp"

namespace gv {
namespace {

using Clock = std::chrono::steady_clock;
using Action = PipelineAction;

constexpr std::size_t repetitions_min = 3;
constexpr std::size_t repetitions_max = 1000;

/// The least time that an operation is assumed to need, because a schedule's clock needs times
/// above 0.
constexpr double seconds_min = 1e-8;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Returns the processor time of this thread, which excludes the time of other programs.
double processor_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

/// Returns the seconds of processor time that `work` takes.
template <class Work>
double timed(Work&& work) {
  const double begin = processor_seconds();
  work();
  return std::max(seconds_min, processor_seconds() - begin);
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Calls `once` to warm up, then repeatedly until `seconds` have passed. Passes `counts` as false
/// for the warm-up.
void repeat(double seconds, const std::function<void(bool counts)>& once) {
  once(false);
  const auto begin = Clock::now();
  for (std::size_t i = 0; i < repetitions_max; ++i) {
    if (i >= repetitions_min && seconds_since(begin) >= seconds) break;
    once(true);
  }
}

double allocated_bytes() {
  const auto info = ::mallinfo2();
  return static_cast<double>(info.uordblks + info.hblkhd);
}

double bytes_of(std::size_t floats) { return static_cast<double>(floats * sizeof(float)); }

/// A piece of the model, with everything that is needed to run it.
struct Piece {
  LayerProfile profile;
  ModelPlan plan;
  std::unique_ptr<Network<float>> network;
  std::vector<float> parameters;
  std::vector<float> gradient;
  std::vector<double> forward;
  std::vector<double> backward_input;
  std::vector<double> backward_weight;
};

std::vector<Piece> pieces_of(const ModelPlan& whole, const TrainerSpec& trainer) {
  std::vector<Piece> pieces;
  std::size_t first = 0;
  for (std::size_t end = 1; end <= whole.layers.size(); ++end) {
    if (end < whole.layers.size() && !may_cut(whole, end)) continue;
    Piece piece;
    piece.plan = slice(whole, first, end);
    piece.network = make_network(piece.plan, trainer.batch);
    piece.parameters.resize(piece.plan.layout.size());
    piece.gradient.resize(piece.plan.layout.size());
    initialise(whole, trainer.model.initial_deviation, piece.plan.layout, piece.parameters,
               Rng(trainer.seed).fork("model"));
    piece.profile.first = std::exchange(first, end);
    piece.profile.end = end;
    const std::size_t layers = end - piece.profile.first;
    piece.profile.name = layer_name(whole.layers[piece.profile.first].spec);
    if (layers > 1) {
      piece.profile.name += " ... " + layer_name(whole.layers[end - 1].spec);
    }
    piece.profile.parameters = piece.plan.layout.size();
    piece.profile.output_bytes = bytes_of(trainer.batch * piece.plan.outputs);
    pieces.push_back(std::move(piece));
  }
  return pieces;
}

void run_pieces(std::vector<Piece>& pieces, const TrainerSpec& trainer, const Batch& batch,
                Rng& rng, bool counts) {
  const auto note = [&](std::vector<double>& times, double seconds) {
    if (counts) times.push_back(seconds);
  };
  std::span<const float> values = batch.inputs;
  for (Piece& piece : pieces) {
    note(piece.forward,
         timed([&] { values = piece.network->forward(piece.parameters, values, true, rng); }));
  }
  std::vector<float> loss(values.size());
  score_outputs(trainer.model.loss, values, batch, loss);
  values = loss;
  for (std::size_t i = pieces.size(); i-- > 0;) {
    Piece& piece = pieces[i];
    note(piece.backward_input,
         timed([&] { values = piece.network->backward_input(piece.parameters, values, i > 0); }));
    note(piece.backward_weight,
         timed([&] { piece.network->backward_weight(piece.parameters, piece.gradient); }));
  }
}

/// Results in transit between stages, keyed by destination stage, micro-batch and direction.
using Passes = std::map<std::tuple<std::uint32_t, std::uint32_t, bool>, std::vector<float>>;

/// One worker: its stages, and the sums of their gradients.
struct StageWorker {
  std::unique_ptr<StageLearner> trainer;
  std::map<std::uint32_t, std::vector<float>> sums;
  /// Number of gradients in each stage's sum since the last update.
  std::map<std::uint32_t, std::size_t> gradients;
  std::size_t drawn = 0;

  StageWorker(const StagesSpec& spec, const std::shared_ptr<const DataSet>& data)
      : trainer(built_in_stage_learner(spec, data)) {}

  void take_up(std::uint32_t stage) {
    trainer->take_up(stage);
    sums[stage].resize(trainer->layout(stage).size());
  }

  /// Executes one instruction. Returns the seconds that the instruction took.
  double carry_out(const PipelineInstruction& what, Passes& passes) {
    const std::uint32_t stage = what.stage;
    const bool is_forward = what.action == Action::forward;
    const bool is_last = stage + 1 == trainer->stages();
    const bool goes_back = what.action == Action::backward || what.action == Action::backward_input;
    std::vector<float> in;
    std::vector<float> out;
    if (is_forward ? stage > 0 : goes_back && !is_last) {
      in = std::move(passes.extract({stage, what.micro_batch, is_forward}).mapped());
    }
    if (is_forward && !is_last) out.resize(trainer->boundary(stage + 1).forward());
    if (goes_back && stage > 0) out.resize(trainer->boundary(stage).activations);
    const double seconds = timed([&] { compute(what, in, out); });
    if (is_forward && stage == 0) ++drawn;
    if (!out.empty()) {
      passes[{is_forward ? stage + 1 : stage - 1, what.micro_batch, is_forward}] = std::move(out);
    }
    return seconds;
  }

  void end_step() {
    trainer->end_run(drawn);
    drawn = 0;
  }

 private:
  void compute(const PipelineInstruction& what, std::span<const float> in, std::span<float> out) {
    std::vector<float>& sum = sums[what.stage];
    switch (what.action) {
      case Action::forward:
        trainer->forward(what.stage, what.micro_batch, drawn, what.version, in, out);
        break;
      case Action::backward:
        trainer->backward(what.stage, what.micro_batch, in, out, sum);
        ++gradients[what.stage];
        break;
      case Action::backward_input:
        trainer->backward_input(what.stage, what.micro_batch, in, out);
        break;
      case Action::backward_weight:
        trainer->backward_weight(what.stage, what.micro_batch, sum);
        ++gradients[what.stage];
        break;
      case Action::update:
        trainer->update(what.stage, sum, std::max<std::size_t>(1, gradients[what.stage]));
        std::ranges::fill(sum, 0.0F);
        gradients[what.stage] = 0;
        break;
    }
  }
};

/// Returns the memory that one more micro-batch in flight takes in a warm stage. The result is at
/// least the size of the stage's outputs, because some allocators do not report their memory.
double network_bytes(StageWorker& worker, std::uint32_t stage, std::size_t outputs,
                     const std::vector<float>& in) {
  StageLearner& trainer = *worker.trainer;
  const bool is_last = stage + 1 == trainer.stages();
  std::vector<float> out(is_last ? 0 : trainer.boundary(stage + 1).forward());
  std::vector<float> back(is_last ? 0 : trainer.boundary(stage + 1).activations);
  std::vector<float> d_in(stage > 0 ? trainer.boundary(stage).activations : 0);
  // The first pass uses the existing network. The second needs another network, whose memory stays
  // allocated.
  trainer.forward(stage, 1, 0, 0, in, out);
  const double before = allocated_bytes();
  trainer.forward(stage, 2, 0, 0, in, out);
  trainer.backward_input(stage, 2, back, d_in);
  trainer.backward_weight(stage, 2, worker.sums[stage]);
  const double after = allocated_bytes();
  trainer.backward_input(stage, 1, back, d_in);
  trainer.backward_weight(stage, 1, worker.sums[stage]);
  return std::max(after - before, bytes_of(outputs));
}

/// The measured times of each kind of pass through a stage, and of its update.
struct StageTimes {
  std::vector<double> forward, whole, input, weight, update;
};

/// Runs one step of the whole chain, stage after stage, and records the times if `counts` is true.
/// Splits backward passes if `in_parts` is true. Fills `inputs` with the input of each stage.
void run_chain(StageWorker& worker, std::vector<StageTimes>& times,
               std::vector<std::vector<float>>& inputs, bool counts, bool in_parts,
               bool keeps_versions) {
  const auto stages = static_cast<std::uint32_t>(times.size());
  Passes passes;
  const auto note = [&](std::vector<double>& of, double taken) {
    if (counts) of.push_back(taken);
  };
  for (std::uint32_t s = 0; s < stages; ++s) {
    if (s > 0) inputs[s] = passes.at({s, 0, true});
    note(times[s].forward, worker.carry_out({Action::forward, s}, passes));
  }
  for (std::uint32_t s = stages; s-- > 0;) {
    if (in_parts) {
      note(times[s].input, worker.carry_out({Action::backward_input, s}, passes));
      note(times[s].weight, worker.carry_out({Action::backward_weight, s}, passes));
    } else {
      note(times[s].whole, worker.carry_out({Action::backward, s}, passes));
    }
  }
  for (std::uint32_t s = 0; s < stages; ++s) {
    // The first of several updates in a run also saves the run's first state, so only the second
    // update is timed.
    if (keeps_versions) worker.carry_out({Action::update, s}, passes);
    note(times[s].update, worker.carry_out({Action::update, s}, passes));
  }
  worker.end_step();
}

}  // namespace

std::vector<LayerProfile> profile_layers(const StagesSpec& spec,
                                         const std::shared_ptr<const DataSet>& data,
                                         double seconds) {
  Problems unsound;
  const ModelPlan whole = plan_model(spec.trainer.model, data->shape, unsound);
  check(unsound.empty(), "a model to profile is sound");
  std::vector<Piece> pieces = pieces_of(whole, spec.trainer);
  Sampler sampler(data, spec.trainer.seed, spec.trainer.peer);
  const Batch batch = sampler.batch(0, spec.trainer.batch);
  Rng rng(spec.trainer.seed);
  repeat(seconds, [&](bool counts) { run_pieces(pieces, spec.trainer, batch, rng, counts); });
  std::vector<LayerProfile> profiles;
  for (Piece& piece : pieces) {
    piece.profile.forward_s = median(std::move(piece.forward));
    piece.profile.backward_input_s = median(std::move(piece.backward_input));
    piece.profile.backward_weight_s = median(std::move(piece.backward_weight));
    profiles.push_back(std::move(piece.profile));
  }
  return profiles;
}

std::vector<StageProfile> profile_stages(const StagesSpec& spec,
                                         const std::shared_ptr<const DataSet>& data, bool splits,
                                         double seconds) {
  // Recomputation is off here, because the schedule's clock adds its time.
  StagesSpec plain = spec;
  plain.recomputes = false;
  const std::vector<LayerWork> work = layer_work(spec.trainer.model, data->shape);
  const auto stages = static_cast<std::uint32_t>(spec.ends.size());
  StageWorker worker(plain, data);
  for (std::uint32_t s = 0; s < stages; ++s) worker.take_up(s);

  std::vector<StageTimes> times(stages);
  std::vector<std::vector<float>> inputs(stages);
  // Alternates between whole and split backward passes. The times of the parts determine how the
  // time of the whole pass is divided between them.
  bool in_parts = true;
  repeat(2 * seconds / 3, [&](bool counts) {
    run_chain(worker, times, inputs, counts, in_parts, spec.keeps_versions);
    in_parts = splits || !in_parts;
  });

  std::vector<StageProfile> profiles(stages);
  std::size_t first = 0;
  for (std::uint32_t s = 0; s < stages; ++s) {
    StageProfile& profile = profiles[s];
    std::size_t outputs = 0;
    for (; first < spec.ends[s]; ++first) outputs += spec.trainer.batch * work[first].outputs;
    profile.parameters = worker.trainer->layout(s).size();
    profile.optimizer_vectors = optimizer_vectors(spec.trainer.optimizer);
    profile.forward_bytes = bytes_of(worker.trainer->boundary(s + 1).forward());
    profile.backward_bytes = bytes_of(worker.trainer->boundary(s + 1).activations);
    profile.input_bytes = bytes_of(s > 0 ? worker.trainer->boundary(s).activations
                                         : spec.trainer.batch * data->features());
    profile.network_bytes = network_bytes(worker, s, outputs, inputs[s]);
    profile.cost = {.forward = median(std::move(times[s].forward)),
                    .backward_input = median(std::move(times[s].input)),
                    .backward_weight = median(std::move(times[s].weight)),
                    .update = median(std::move(times[s].update)),
                    .recomputes = spec.recomputes};
    if (splits) continue;
    StageCost& cost = profile.cost;
    const double scale =
        median(std::move(times[s].whole)) / (cost.backward_input + cost.backward_weight);
    cost.backward_input *= scale;
    cost.backward_weight *= scale;
  }
  return profiles;
}

std::vector<std::size_t> ends_of(const StagePartition& partition,
                                 std::span<const LayerProfile> layers) {
  std::vector<std::size_t> ends;
  for (const PlannedStage& stage : partition.stages) {
    ends.push_back(layers[stage.end_layer - 1].end);
  }
  return ends;
}

MeasuredSteps measure_steps(const StagesSpec& spec, const std::shared_ptr<const DataSet>& data,
                            const PipelineSchedule& schedule, const PipelineCosts& costs,
                            const PipelineTiming& predicted, double seconds) {
  std::vector<StageWorker> workers;
  std::vector<std::vector<double>> taken;
  // Tuples (begin, worker, place in the worker's list), ordered by time, so that inputs exist
  // before the instructions that need them are executed.
  std::vector<std::tuple<double, std::size_t, std::size_t>> order;
  for (std::size_t w = 0; w < schedule.workers.size(); ++w) {
    workers.emplace_back(spec, data);
    taken.emplace_back(schedule.workers[w].size());
    for (std::size_t i = 0; i < schedule.workers[w].size(); ++i) {
      workers.back().take_up(schedule.workers[w][i].stage);
      order.emplace_back(predicted.workers[w][i].begin, w, i);
    }
  }
  std::ranges::sort(order);
  std::vector<PipelineTiming> steps;
  repeat(seconds, [&](bool counts) {
    Passes passes;
    for (const auto& [begin, w, i] : order) {
      const double speed = costs.speeds.empty() ? 1 : costs.speeds[w];
      taken[w][i] = workers[w].carry_out(schedule.workers[w][i], passes) / speed;
    }
    for (StageWorker& worker : workers) worker.end_step();
    if (counts) steps.push_back(replay(schedule, costs, taken));
  });
  std::ranges::sort(steps, {}, &PipelineTiming::makespan);
  return {.median = steps[steps.size() / 2],
          .steps = steps.size(),
          .least_s = steps.front().makespan,
          .most_s = steps.back().makespan};
}

}  // namespace gv
