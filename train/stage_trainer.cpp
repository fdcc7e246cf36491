// Stages, the micro-batches in flight in them, and versions of their parameters.
#include "train/stage_trainer.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/check.hpp"
#include "base/wide.hpp"
#include "train/data/sampler.hpp"
#include "train/layers/initial_values.hpp"
#include "train/layers/network.hpp"
#include "train/layers/plan.hpp"
#include "train/optimizer.hpp"
#include "train/schedule.hpp"

namespace gv {
namespace {

GV_WIDE void add_scaled(float* __restrict x, const float* __restrict y, std::size_t n,
                        float scale) {
  for (std::size_t i = 0; i < n; ++i) x[i] += scale * y[i];
}

GV_WIDE void scale_to(float* __restrict x, const float* __restrict y, std::size_t n, float scale) {
  for (std::size_t i = 0; i < n; ++i) x[i] = scale * y[i];
}

using Parameters = std::shared_ptr<std::vector<float>>;

/// A micro-batch between its forward pass in a stage and the end of its backward pass.
struct Flight {
  std::unique_ptr<Network<float>> network;  ///< Null while activations wait to be computed again.
  std::vector<float> inputs;
  std::vector<float> d_outputs;  ///< Of the last stage: what the loss gives.
  Parameters parameters;         ///< The version it went forward with.
};

/// Multiplications and additions of one sample's forward pass.
double operations(const LayerPlan& layer) {
  double sum = static_cast<double>(elements(layer.in) + elements(layer.out));
  for (const LayerPlan& inner : layer.layers) sum += operations(inner);
  if (!layer.layers.empty()) return sum;
  const double weights = static_cast<double>(layer.end - layer.begin);
  const double positions = static_cast<double>(layer.in[0]);
  switch (layer.spec.kind) {
    case LayerKind::conv2d:
      return sum + 2 * weights * static_cast<double>(layer.out[1] * layer.out[2]);
    case LayerKind::dense:
      return sum + 2 * static_cast<double>(layer.rows) *
                       static_cast<double>(elements(layer.in) / layer.rows) *
                       static_cast<double>(elements(layer.out) / layer.rows);
    case LayerKind::attention:
      // The projections of every position, and every position with those before it, twice.
      return sum + 2 * weights * positions +
             2 * positions * positions * static_cast<double>(layer.in[2]);
    default:
      return sum;
  }
}

/// One stage that is carried.
struct Carried {
  Parameters newest;
  Parameters before;  ///< The version before the newest, where schedules ask for it.
  std::uint32_t version = 0;
  Optimizer optimizer;
  Parameters at_begin;  ///< Before the run's first update, to undo a run with many; else null.
  std::optional<Optimizer> optimizer_begin;  ///< The optimiser's state at the same moment.
  std::map<std::uint32_t, Flight> flights;
  std::vector<std::unique_ptr<Network<float>>> spare;
  std::vector<float> gradient;  ///< Of one micro-batch, or a mean.
};

}  // namespace

struct StageTrainer::Impl {
  Impl(StagesSpec given, std::shared_ptr<const DataSet> data)
      : spec(std::move(given)),
        shard(std::move(data)),
        whole(plan_model(spec.trainer.model, shard->shape, unsound)),
        sampler(shard, spec.trainer.seed, spec.trainer.peer) {
    check(unsound.empty() && cut_problems(spec.trainer.model, shard->shape, spec.ends).empty(),
          "a pipeline has a sound model and cut");
    std::size_t first = 0;
    for (const std::size_t end : spec.ends) {
      plans.push_back(slice(whole, first, end));
      first = end;
    }
    carried.resize(plans.size());
  }

  std::unique_ptr<Network<float>> network_for(std::size_t stage) {
    auto& spare = carried[stage]->spare;
    if (!spare.empty()) {
      std::unique_ptr<Network<float>> network = std::move(spare.back());
      spare.pop_back();
      return network;
    }
    auto network = make_onednn_network(plans[stage], spec.trainer.batch);
    return network ? std::move(network)
                   : make_plain_network<float>(plans[stage], spec.trainer.batch);
  }

  /// The same numbers whenever a micro-batch passes a stage: the first time, and again.
  Rng dropout(std::size_t stage, std::uint32_t number) const {
    return Rng(spec.trainer.seed).fork("dropout").fork(step).fork(number).fork(stage);
  }

  std::size_t truth_size() const {
    return spec.trainer.batch * (shard->classes > 0 ? shard->predictions : shard->target_width);
  }

  /// Labels travel as floats, which hold whole numbers up to 2^24.
  void write_truth(const Batch& batch, std::span<float> out) const {
    if (shard->classes > 0) {
      std::ranges::transform(batch.labels, out.begin(),
                             [](std::int32_t label) { return static_cast<float>(label); });
    } else {
      std::ranges::copy(batch.targets, out.begin());
    }
  }

  Score loss(std::span<const float> outputs, std::span<const float> truth, std::span<float> d_out) {
    Batch batch{.inputs = {}, .labels = {}, .targets = truth, .size = spec.trainer.batch};
    if (shard->classes > 0) {
      labels.resize(truth.size());
      std::ranges::transform(truth, labels.begin(),
                             [](float label) { return static_cast<std::int32_t>(label); });
      batch.labels = labels;
      batch.targets = {};
    }
    return score_outputs(spec.trainer.model.loss, outputs, batch, d_out);
  }

  Flight& flight(std::size_t stage, std::uint32_t number) {
    const auto found = carried[stage]->flights.find(number);
    check(found != carried[stage]->flights.end(), "a micro-batch goes back after it went forward");
    return found->second;
  }

  /// With its activations, which may have to be computed again.
  Flight& ready_flight(std::size_t stage, std::uint32_t number) {
    Flight& found = flight(stage, number);
    if (!found.network) {
      found.network = network_for(stage);
      Rng rng = dropout(stage, number);
      found.network->forward(*found.parameters, found.inputs, true, rng);
    }
    return found;
  }

  void land(std::size_t stage, std::uint32_t number) {
    Carried& own = *carried[stage];
    own.spare.push_back(std::move(flight(stage, number).network));
    own.flights.erase(number);
  }

  Problems unsound;
  StagesSpec spec;
  std::shared_ptr<const DataSet> shard;
  ModelPlan whole;
  Sampler sampler;
  std::vector<ModelPlan> plans;
  std::vector<std::optional<Carried>> carried;
  std::vector<std::int32_t> labels;
  std::uint64_t step = 0;
  std::uint64_t position = 0;
};

StageTrainer::StageTrainer(StagesSpec spec, std::shared_ptr<const DataSet> shard)
    : impl_(std::make_unique<Impl>(std::move(spec), std::move(shard))) {}
StageTrainer::StageTrainer(StageTrainer&&) noexcept = default;
StageTrainer::~StageTrainer() = default;

std::size_t StageTrainer::stages() const { return impl_->plans.size(); }

const Layout& StageTrainer::layout(std::size_t stage) const { return impl_->plans[stage].layout; }

const Layout& StageTrainer::whole_layout() const { return impl_->whole.layout; }

double StageTrainer::work_share(std::size_t stage) const {
  const std::vector<LayerWork> work = layer_work(impl_->spec.trainer.model, impl_->shard->shape);
  const std::size_t first = stage == 0 ? 0 : impl_->spec.ends[stage - 1];
  double own = 0;
  double all = 0;
  for (std::size_t i = 0; i < work.size(); ++i) {
    all += work[i].operations;
    if (i >= first && i < impl_->spec.ends[stage]) own += work[i].operations;
  }
  return own / all;
}

BoundarySize StageTrainer::boundary(std::size_t stage) const {
  if (stage == 0 || stage >= stages()) return {};
  return {impl_->spec.trainer.batch * elements(impl_->plans[stage].in), impl_->truth_size()};
}

std::uint64_t StageTrainer::step() const { return impl_->step; }

double StageTrainer::learning_rate() const {
  const TrainerSpec& spec = impl_->spec.trainer;
  const std::size_t batch = std::max(spec.batch, impl_->spec.samples_an_update);
  return gv::learning_rate(spec.schedule, batch, impl_->step, spec.steps);
}

void StageTrainer::take_up(std::size_t stage) {
  if (carries(stage)) return;
  const std::size_t size = layout(stage).size();
  impl_->carried[stage] =
      Carried{.newest = std::make_shared<std::vector<float>>(size),
              .before = nullptr,
              .version = 0,
              .optimizer = Optimizer(impl_->spec.trainer.optimizer, layout(stage)),
              .flights = {},
              .spare = {},
              .gradient = std::vector<float>(size)};
  initialise(impl_->whole, impl_->spec.trainer.model.initial_deviation, layout(stage),
             *impl_->carried[stage]->newest, Rng(impl_->spec.trainer.seed).fork("model"));
}

void StageTrainer::release(std::size_t stage) { impl_->carried[stage].reset(); }

bool StageTrainer::carries(std::size_t stage) const { return impl_->carried[stage].has_value(); }

std::span<const float> StageTrainer::parameters(std::size_t stage) const {
  return *impl_->carried[stage]->newest;
}

std::size_t StageTrainer::state_size(std::size_t stage) const {
  return layout(stage).size() * (1 + optimizer_vectors(impl_->spec.trainer.optimizer)) + 1;
}

void StageTrainer::copy_state(std::size_t stage, std::span<float> out) const {
  check(out.size() == state_size(stage), "a stage's state has one size");
  const Carried& own = *impl_->carried[stage];
  std::ranges::copy(*own.newest, out.begin());
  own.optimizer.copy_state(out.subspan(own.newest->size(), out.size() - own.newest->size() - 1));
  out.back() = static_cast<float>(own.optimizer.updates());
}

void StageTrainer::adopt_state(std::size_t stage, std::span<const float> state) {
  check(state.size() == state_size(stage), "a stage's state has one size");
  take_up(stage);
  Carried& own = *impl_->carried[stage];
  const std::size_t size = own.newest->size();
  own.newest = std::make_shared<std::vector<float>>(
      state.begin(), state.begin() + static_cast<std::ptrdiff_t>(size));
  own.before = nullptr;
  own.optimizer.adopt_state(state.subspan(size, state.size() - size - 1),
                            static_cast<std::uint64_t>(state.back()));
}

OptimizerState StageTrainer::optimizer_state(std::size_t stage) const {
  const Optimizer& optimizer = impl_->carried[stage]->optimizer;
  return {.vectors = optimizer.vectors(),
          .step = impl_->step,
          .updates = optimizer.updates(),
          .position = impl_->position};
}

std::string StageTrainer::restore(std::size_t stage, std::span<const float> parameters,
                                  const OptimizerState& state) {
  take_up(stage);
  if (parameters.size() != layout(stage).size()) return "the stage has another size";
  std::string problem = impl_->carried[stage]->optimizer.restore(state.vectors, state.updates);
  if (!problem.empty()) return problem;
  set(stage, parameters);
  impl_->step = state.step;
  impl_->position = state.position.value_or(0);
  return problem;
}

void StageTrainer::move_to(std::uint64_t step) {
  abandon_run();
  impl_->step = step;
}

Score StageTrainer::forward(std::size_t stage, std::uint32_t number, std::size_t draw,
                            std::uint32_t version, std::span<const float> in,
                            std::span<float> out) {
  check(carries(stage), "a peer computes the stages it carries");
  Carried& own = *impl_->carried[stage];
  Flight flight;
  check(version == own.version || (version + 1 == own.version && own.before),
        "a version of the parameters is there while it is asked for");
  flight.parameters = version == own.version ? own.newest : own.before;
  flight.network = impl_->network_for(stage);
  std::vector<float> truth(impl_->truth_size());
  if (stage == 0) {
    const std::size_t size = impl_->spec.trainer.batch;
    std::uint64_t position = impl_->position;
    for (std::size_t i = 0; i < draw; ++i) position = impl_->sampler.after(position, size);
    const Batch batch = impl_->sampler.batch(position, size);
    flight.inputs.assign(batch.inputs.begin(), batch.inputs.end());
    impl_->write_truth(batch, truth);
  } else {
    const BoundarySize size = boundary(stage);
    check(in.size() == size.forward(), "a stage gets what passes its boundary");
    flight.inputs.assign(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(size.activations));
    std::ranges::copy(in.subspan(size.activations), truth.begin());
  }
  Rng rng = impl_->dropout(stage, number);
  const std::span<const float> outputs =
      flight.network->forward(*flight.parameters, flight.inputs, true, rng);
  Score score;
  if (stage + 1 == stages()) {
    flight.d_outputs.resize(outputs.size());
    score = impl_->loss(outputs, truth, flight.d_outputs);
  } else {
    check(out.size() == outputs.size() + truth.size(), "a stage passes on what its boundary takes");
    std::ranges::copy(truth, std::ranges::copy(outputs, out.begin()).out);
  }
  if (impl_->spec.recomputes) own.spare.push_back(std::move(flight.network));
  own.flights.insert_or_assign(number, std::move(flight));
  return score;
}

void StageTrainer::backward(std::size_t stage, std::uint32_t number, std::span<const float> d_out,
                            std::span<float> d_in, std::span<float> gradient) {
  Flight& flight = impl_->ready_flight(stage, number);
  Carried& own = *impl_->carried[stage];
  const auto from = stage + 1 == stages() ? std::span<const float>(flight.d_outputs) : d_out;
  const std::span<const float> before =
      flight.network->backward(*flight.parameters, from, own.gradient, {}, stage > 0);
  if (stage > 0) std::ranges::copy(before, d_in.begin());
  add_scaled(gradient.data(), own.gradient.data(), own.gradient.size(), 1);
  impl_->land(stage, number);
}

void StageTrainer::backward_input(std::size_t stage, std::uint32_t number,
                                  std::span<const float> d_out, std::span<float> d_in) {
  Flight& flight = impl_->ready_flight(stage, number);
  const auto from = stage + 1 == stages() ? std::span<const float>(flight.d_outputs) : d_out;
  const std::span<const float> before =
      flight.network->backward_input(*flight.parameters, from, stage > 0);
  if (stage > 0) std::ranges::copy(before, d_in.begin());
}

void StageTrainer::backward_weight(std::size_t stage, std::uint32_t number,
                                   std::span<float> gradient) {
  Flight& flight = impl_->flight(stage, number);
  Carried& own = *impl_->carried[stage];
  flight.network->backward_weight(*flight.parameters, own.gradient);
  add_scaled(gradient.data(), own.gradient.data(), own.gradient.size(), 1);
  impl_->land(stage, number);
}

void StageTrainer::update(std::size_t stage, std::span<const float> sum,
                          std::size_t micro_batches) {
  Carried& own = *impl_->carried[stage];
  // Versions in use stay as they are; the newest moves on.
  if (impl_->spec.keeps_versions) {
    if (own.version == 0) {
      own.at_begin = own.newest;
      own.optimizer_begin = own.optimizer;
    }
    own.before = own.newest;
    own.newest = std::make_shared<std::vector<float>>(*own.newest);
  }
  scale_to(own.gradient.data(), sum.data(), own.gradient.size(),
           1 / static_cast<float>(micro_batches));
  own.optimizer.step(*own.newest, own.gradient, learning_rate());
  ++own.version;
}

void StageTrainer::add(std::size_t stage, std::span<const float> force, float scale) {
  std::vector<float>& x = *impl_->carried[stage]->newest;
  check(force.size() == x.size(), "a force has the stage's size");
  add_scaled(x.data(), force.data(), x.size(), scale);
}

void StageTrainer::set(std::size_t stage, std::span<const float> values) {
  std::vector<float>& x = *impl_->carried[stage]->newest;
  check(values.size() == x.size(), "parameters have the stage's size");
  std::ranges::copy(values, x.begin());
}

void StageTrainer::end_run(std::size_t drawn) {
  for (std::size_t i = 0; i < drawn; ++i) {
    impl_->position = impl_->sampler.after(impl_->position, impl_->spec.trainer.batch);
  }
  for (std::optional<Carried>& own : impl_->carried) {
    if (own) own->at_begin = nullptr;
  }
  abandon_run();
  ++impl_->step;
}

void StageTrainer::abandon_run() {
  for (std::optional<Carried>& own : impl_->carried) {
    if (!own) continue;
    if (own->at_begin) {
      own->newest = std::exchange(own->at_begin, nullptr);
      own->optimizer = *std::move(own->optimizer_begin);
    }
    for (auto& [number, flight] : own->flights) {
      if (flight.network) own->spare.push_back(std::move(flight.network));
    }
    own->flights.clear();
    own->before = nullptr;
    own->version = 0;
  }
}

std::vector<Layout> stage_layouts(const ModelSpec& model, SampleShape input,
                                  const std::vector<std::size_t>& ends) {
  Problems unsound;
  const ModelPlan plan = plan_model(model, input, unsound);
  std::vector<Layout> layouts;
  std::size_t first = 0;
  for (const std::size_t end : ends)
    layouts.push_back(slice(plan, std::exchange(first, end), end).layout);
  return layouts;
}

std::vector<LayerWork> layer_work(const ModelSpec& model, SampleShape input) {
  Problems unsound;
  const ModelPlan plan = plan_model(model, input, unsound);
  std::vector<LayerWork> all;
  for (std::size_t i = 0; i < plan.layers.size(); ++i) {
    const LayerPlan& layer = plan.layers[i];
    all.push_back({.operations = operations(layer),
                   .parameters = layer.end - layer.begin,
                   .outputs = elements(layer.out),
                   .may_begin_stage = may_cut(plan, i) && layer.has_parameters()});
  }
  return all;
}

Problems cut_problems(const ModelSpec& model, SampleShape input,
                      const std::vector<std::size_t>& ends) {
  Problems unsound;
  const ModelPlan plan = plan_model(model, input, unsound);
  if (!unsound.empty()) return unsound;
  Problems found;
  const std::string count = std::to_string(plan.layers.size());
  const bool rises = std::ranges::adjacent_find(ends, std::ranges::greater_equal{}) == ends.end();
  if (ends.empty() || !rises || ends.front() == 0 || ends.back() != plan.layers.size()) {
    found.push_back({"pipeline.ends", "the stages do not divide the model's " + count + " layers",
                     "give one past the last layer of each stage, rising, the last " + count});
    return found;
  }
  std::size_t first = 0;
  for (std::size_t s = 0; s < ends.size(); ++s) {
    if (!may_cut(plan, first)) {
      found.push_back({"pipeline.ends", "layers that share a table of tokens are in two stages",
                       "write tied = false in [model]"});
      return found;
    }
    const bool learns = std::any_of(plan.layers.begin() + static_cast<std::ptrdiff_t>(first),
                                    plan.layers.begin() + static_cast<std::ptrdiff_t>(ends[s]),
                                    [](const LayerPlan& layer) { return layer.has_parameters(); });
    if (!learns) {
      found.push_back(
          {"pipeline.ends", "stage " + std::to_string(s) + " has no parameters", "cut elsewhere"});
    }
    first = ends[s];
  }
  return found;
}

}  // namespace gv
