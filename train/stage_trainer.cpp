// Trains stages, and keeps the micro-batches in flight and the versions of the parameters.
#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/check.hpp"
#include "base/wide.hpp"
#include "train/built_in_learner.hpp"
#include "train/carried_stage.hpp"
#include "train/data/sampler.hpp"
#include "train/evaluation.hpp"
#include "train/group_batch.hpp"
#include "train/layers/group_network.hpp"
#include "train/layers/initial_values.hpp"
#include "train/layers/network.hpp"
#include "train/layers/plan.hpp"
#include "train/layers/sliced_stage.hpp"
#include "train/model.hpp"
#include "train/model_stages.hpp"
#include "train/optimizer.hpp"
#include "train/parameter_bound.hpp"
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

/// The places of a stage's running statistics among the parameters that a peer holds. All carriers
/// hold all of these statistics.
std::vector<Range> statistics_in(const ModelPlan& plan, const HeldParameters& held) {
  std::vector<Range> statistics = statistics_of(plan);
  for (Range& range : statistics) {
    range = {held.held_before(range.begin), held.held_before(range.end)};
  }
  return statistics;
}

/// Trains the layers of each stage in the same way as the trainer of a whole model.
class StageTrainer final : public StageLearner {
 public:
  /// The first stage draws training samples from `shard`, and test samples from `test` unless that
  /// is null. The spec and its cut must be valid.
  StageTrainer(StagesSpec spec, std::shared_ptr<const DataSet> shard,
               std::shared_ptr<const DataSet> test)
      : spec_(std::move(spec)),
        shard_(std::move(shard)),
        test_(std::move(test)),
        whole_(plan_model(spec_.trainer.model, shard_->shape, unsound_)),
        sampler_(shard_, spec_.trainer.seed, spec_.trainer.peer) {
    check(unsound_.empty() && cut_problems(spec_.trainer.model, shard_->shape, spec_.ends).empty(),
          "a pipeline has a sound model and cut");
    std::size_t first = 0;
    for (const std::size_t end : spec_.ends) {
      stages_.emplace_back(slice(whole_, first, end), spec_.slices);
      if (first == 0) group_batch_.emplace(stages_.front(), spec_.trainer.batch, truth_size());
      forward_sums_.push_back(sums_of(first == 0, false));
      test_sum_counts_.push_back(sums_in_tests(forward_sums_.back()).size());
      backward_sums_.push_back(sums_of(first == 0, true));
      first = end;
    }
    carried_.resize(stages_.size());
  }

  std::size_t stages() const override { return stages_.size(); }
  const Layout& layout(std::size_t stage) const override { return plan(stage).layout; }
  const Layout& whole_layout() const override { return whole_.layout; }

  double work_share(std::size_t stage) const override {
    const std::vector<LayerWork> work = layer_work(spec_.trainer.model, shard_->shape);
    const std::size_t first = stage == 0 ? 0 : spec_.ends[stage - 1];
    double own = 0;
    double all = 0;
    for (std::size_t i = 0; i < work.size(); ++i) {
      all += work[i].operations;
      if (i >= first && i < spec_.ends[stage]) own += work[i].operations;
    }
    return own / all;
  }

  BoundarySize boundary(std::size_t stage) const override {
    if (stage == 0 || stage >= stages()) return {};
    return {spec_.trainer.batch * elements(plan(stage).in), truth_size()};
  }

  std::uint64_t step() const override { return step_; }

  double learning_rate() const override {
    const TrainerSpec& spec = spec_.trainer;
    const std::size_t batch = std::max(spec.batch, spec_.samples_an_update);
    return gv::learning_rate(spec.schedule, batch, step_, spec.steps);
  }

  std::size_t slices(std::size_t stage) const override { return stages_[stage].slices(); }

  void take_up(std::size_t stage, const Range& slices) override {
    std::optional<CarriedStage>& own = carried_[stage];
    if (own && own->held.slices == slices) return;
    HeldParameters held = stages_[stage].held(slices);
    auto values = std::make_shared<std::vector<float>>(held.layout.size());
    const float largest = initialise(whole_, spec_.trainer.model.initial_deviation, layout(stage),
                                     held.ranges, *values, Rng(spec_.trainer.seed).fork("model"));
    const std::vector<Range> statistics = statistics_in(plan(stage), held);
    Optimizer optimizer(spec_.trainer.optimizer, held.layout, statistics);
    if (own) {
      own->copy_kept(held, *values, optimizer);
      optimizer.set_updates(own->optimizer.updates());
    }
    std::vector<float> gradient(held.layout.size());
    own.emplace(CarriedStage{.held = std::move(held),
                             .newest = std::move(values),
                             .optimizer = std::move(optimizer),
                             .gradient = std::move(gradient),
                             .bound = ParameterBound(largest, statistics)});
  }

  void release(std::size_t stage) override { carried_[stage].reset(); }
  bool carries(std::size_t stage) const override { return carried_[stage].has_value(); }
  Range held(std::size_t stage) const override { return carried_[stage]->held.slices; }

  std::span<const float> parameters(std::size_t stage) const override {
    return *carried_[stage]->newest;
  }
  const Layout& held_layout(std::size_t stage) const override {
    return carried_[stage]->held.layout;
  }
  std::vector<Range> held_ranges(std::size_t stage) const override {
    return carried_[stage]->held.ranges;
  }

  std::size_t size(const PartOfStage& part) const override {
    const SlicedStage& stage = stages_[part.stage];
    return part.slice ? stage.slice_size(*part.slice) : stage.common_size();
  }

  using StageLearner::state_size;
  using StageLearner::take_up;

  std::size_t state_size(const PartOfStage& part) const override {
    return size(part) * (1 + optimizer_vectors(spec_.trainer.optimizer)) + 1;
  }

  void copy_state(const PartOfStage& part, std::span<float> out) const override {
    check(out.size() == state_size(part), "a part of a stage has a state of one size");
    carried_[part.stage]->copy_state(part, size(part), out);
  }

  void adopt_state(const PartOfStage& part, std::span<const float> state) override {
    check(state.size() == state_size(part), "a part of a stage has a state of one size");
    if (!carries(part.stage)) take_up(part.stage);
    carried_[part.stage]->adopt_state(part, size(part), state);
  }

  OptimizerState optimizer_state(std::size_t stage) const override {
    const Optimizer& optimizer = carried_[stage]->optimizer;
    return {.vectors = optimizer.vectors(),
            .step = step_,
            .updates = optimizer.updates(),
            .position = position_};
  }

  std::string restore(std::size_t stage, std::span<const float> parameters,
                      const OptimizerState& state) override {
    if (!carries(stage)) take_up(stage);
    if (parameters.size() != held_layout(stage).size()) return "the stage has another size";
    std::string problem = carried_[stage]->optimizer.restore(state.vectors, state.updates);
    if (!problem.empty()) return problem;
    std::ranges::copy(parameters, carried_[stage]->newest->begin());
    step_ = state.step;
    position_ = state.position.value_or(0);
    return problem;
  }

  void move_to(std::uint64_t step) override {
    abandon_run();
    step_ = step;
  }

  Score forward(std::size_t stage, std::uint32_t number, std::size_t draw, std::uint32_t version,
                std::span<const float> in, std::span<float> out) override {
    check(carries(stage), "a peer computes the stages it carries");
    CarriedStage& own = *carried_[stage];
    Flight flight = own.begin_flight();
    check(version == own.version || (version + 1 == own.version && own.before),
          "a version of the parameters is there while it is asked for");
    flight.parameters = version == own.version ? own.newest : own.before;
    flight.network = network_for(stage);
    std::vector<float> drawn;
    if (stage == 0) {
      drawn.resize(input_size(0) + truth_size());
      draw_batch(draw, drawn);
      in = drawn;
    }
    take_inputs(stage, in, flight);
    Rng rng = dropout(stage, number);
    const std::span<const float> outputs =
        flight.network->forward(*flight.parameters, flight.inputs, true, rng);
    const Score score = end_forward(stage, flight, outputs, out);
    if (spec_.recomputes) own.spare.push_back(std::move(flight.network));
    own.flights.insert_or_assign(number, std::move(flight));
    return score;
  }

  void backward(std::size_t stage, std::uint32_t number, std::span<const float> d_out,
                std::span<float> d_in, const HeldValues<float>& gradient) override {
    Flight& flight = ready_flight(stage, number);
    CarriedStage& own = *carried_[stage];
    const auto from = stage + 1 == stages() ? std::span<const float>(flight.d_outputs) : d_out;
    const std::span<const float> before =
        flight.network->backward(*flight.parameters, from, own.gradient, {}, stage > 0);
    if (stage > 0) std::ranges::copy(before, d_in.begin());
    own.add_gradient(true, gradient);
    land(stage, number);
  }

  void backward_input(std::size_t stage, std::uint32_t number, std::span<const float> d_out,
                      std::span<float> d_in) override {
    Flight& flight = ready_flight(stage, number);
    const auto from = stage + 1 == stages() ? std::span<const float>(flight.d_outputs) : d_out;
    const std::span<const float> before =
        flight.network->backward_input(*flight.parameters, from, stage > 0);
    if (stage > 0) std::ranges::copy(before, d_in.begin());
  }

  void backward_weight(std::size_t stage, std::uint32_t number,
                       const HeldValues<float>& gradient) override {
    Flight& flight = flight_of(stage, number);
    CarriedStage& own = *carried_[stage];
    if (flight.group) {
      flight.group->write_gradient(own.gradient);
    } else {
      flight.network->backward_weight(*flight.parameters, own.gradient);
    }
    own.add_gradient(!flight.group || flight.group->adds_to_common(), gradient);
    land(stage, number);
  }

  std::vector<GroupSum> group_sums(std::size_t stage, bool backward) const override {
    return backward ? backward_sums_[stage] : forward_sums_[stage];
  }

  Score forward_part(const PassPart& pass, const GroupPlace& place, std::size_t draw,
                     std::span<const float> in, std::span<float> out) override {
    return forward_part(pass, place, draw, in, out, true);
  }

  void backward_part(const PassPart& pass, std::span<const float> in,
                     std::span<float> out) override {
    Flight& flight = flight_of(pass.stage, pass.number);
    const bool is_end = pass.stage + 1 == stages();
    const std::span<const float> result =
        pass.part > 0
            ? flight.group->go_on_back(in)
            : flight.group->begin_back(is_end ? std::span<const float>(flight.d_outputs) : in);
    std::ranges::copy(result, out.begin());
  }

  void test(std::size_t stage, std::size_t number, std::span<const float> in,
            std::span<float> out) override {
    check(carries(stage), "a peer computes the stages it carries");
    CarriedStage& own = *carried_[stage];
    Flight flight = own.begin_flight();
    flight.parameters = own.newest;
    flight.network = network_for(stage);
    std::vector<float> drawn;
    if (stage == 0) {
      drawn.resize(input_size(0) + truth_size());
      read_test(number, drawn);
      in = drawn;
    }
    take_inputs(stage, in, flight);
    Rng unused(0);
    const std::span<const float> outputs =
        flight.network->forward(*flight.parameters, flight.inputs, false, unused);
    tested_ += end_forward(stage, flight, outputs, out);
    own.keep_memory(flight);
  }

  void test_part(const PassPart& pass, const GroupPlace& place, std::size_t number,
                 std::span<const float> in, std::span<float> out) override {
    tested_ += forward_part(pass, place, number, in, out, false);
    if (pass.part == test_sum_counts_[pass.stage]) land(pass.stage, pass.number);
  }

  double test_merit() override {
    const Score score = std::exchange(tested_, {});
    return score.samples > 0 ? merit_of(score, *test_).value : 0;
  }

  void update(std::size_t stage, const HeldValues<const float>& sum,
              std::size_t micro_batches) override {
    CarriedStage& own = *carried_[stage];
    // Change only the newest version. Older versions that are still in use stay unchanged.
    if (spec_.keeps_versions) {
      if (own.version == 0) {
        own.at_begin = own.newest;
        own.optimizer_begin = own.optimizer;
      }
      own.before = own.newest;
      own.newest = std::make_shared<std::vector<float>>(*own.newest);
    }
    const float scale = 1 / static_cast<float>(micro_batches);
    const auto take_from = [&](std::span<const float> values) {
      return [&, values](const HeldRun& run) {
        scale_to(own.gradient.data() + run.held, values.data() + run.part, run.size, scale);
      };
    };
    std::ranges::for_each(own.held.common, take_from(sum.common));
    own.held.for_each_sliced(take_from(sum.slices));
    const float before = own.bound.largest_in(*own.newest);
    hold(own, before, own.optimizer.step(*own.newest, own.gradient, learning_rate()));
    ++own.version;
  }

  void add(std::size_t stage, std::span<const float> force, float scale) override {
    CarriedStage& own = *carried_[stage];
    std::vector<float>& x = *own.newest;
    check(force.size() == x.size(), "a force has the stage's size");
    const float before = own.bound.largest_in(x);
    add_scaled(x.data(), force.data(), x.size(), scale);
    hold(own, before, own.bound.largest_in(x));
  }

  void set(std::size_t stage, std::span<const float> values) override {
    CarriedStage& own = *carried_[stage];
    std::vector<float>& x = *own.newest;
    check(values.size() == x.size(), "parameters have the stage's size");
    const float before = own.bound.largest_in(x);
    std::ranges::copy(values, x.begin());
    hold(own, before, own.bound.largest_in(x));
  }
  std::uint64_t held() const override { return held_; }

  void end_run(std::size_t drawn) override {
    for (std::size_t i = 0; i < drawn; ++i) {
      position_ = sampler_.after(position_, spec_.trainer.batch);
    }
    for (std::optional<CarriedStage>& own : carried_) {
      if (own) own->at_begin = nullptr;
    }
    abandon_run();
    ++step_;
  }

  void abandon_run() override {
    tested_ = {};
    for (std::optional<CarriedStage>& own : carried_) {
      if (own) own->abandon_run();
    }
  }

 private:
  const ModelPlan& plan(std::size_t stage) const { return stages_[stage].plan(); }

  /// Clamps parameters and running statistics that a change has made too large. Carriers with
  /// different slices must clamp their common values at the same bound, so for them the bound does
  /// not depend on `before`.
  void hold(CarriedStage& own, float before, float after) {
    const bool is_cut = !own.held.own.empty();
    const float now = own.bound.hold(*own.newest, is_cut ? 0 : before, after);
    held_ += own.bound.hold_statistics(*own.newest) || now != after ? 1 : 0;
  }

  std::unique_ptr<Network<float>> network_for(std::size_t stage) {
    auto& spare = carried_[stage]->spare;
    if (!spare.empty()) {
      std::unique_ptr<Network<float>> network = std::move(spare.back());
      spare.pop_back();
      return network;
    }
    return make_network(plan(stage), spec_.trainer.batch);
  }

  /// Makes one part of a group's forward pass. `training` is false in a test.
  Score forward_part(const PassPart& pass, const GroupPlace& place, std::size_t draw,
                     std::span<const float> in, std::span<float> out, bool training) {
    const std::size_t first = pass.stage == 0 ? 1 : 0;
    if (pass.part < first) {
      give_batch(draw, training, place, out);
      return {};
    }
    if (pass.part == first) begin_flight(pass, place, in);
    Flight& flight = flight_of(pass.stage, pass.number);
    const std::span<const float> result =
        pass.part == first ? flight.group->begin(*flight.parameters, flight.inputs, flight.labels,
                                                 dropout(pass.stage, pass.number), training)
                           : flight.group->go_on(in);
    const std::size_t sums =
        training ? forward_sums_[pass.stage].size() : test_sum_counts_[pass.stage];
    if (pass.part == sums) return end_forward(pass.stage, flight, result, out);
    std::ranges::copy(result, out.begin());
    return {};
  }

  /// Begins a micro-batch's pass through the group's network.
  void begin_flight(const PassPart& pass, const GroupPlace& place, std::span<const float> in) {
    CarriedStage& own = *carried_[pass.stage];
    if (own.place != place) {
      own.place = place;
      own.spare_groups.clear();
    }
    Flight flight = own.begin_flight();
    flight.parameters = own.newest;
    if (own.spare_groups.empty()) {
      flight.group = std::make_unique<GroupNetwork<float>>(
          stages_[pass.stage], own.held, spec_.trainer.batch, place, pass.stage > 0);
    } else {
      flight.group = std::move(own.spare_groups.back());
      own.spare_groups.pop_back();
    }
    if (pass.stage == 0) {
      flight.inputs.resize(input_size(0));
      take_truth(0, group_batch_->take(in, place, flight.inputs), flight);
    } else {
      take_inputs(pass.stage, in, flight);
    }
    own.flights.insert_or_assign(pass.number, std::move(flight));
  }

  /// The sums that a group makes in a pass through the newest stage, the last of `stages_`.
  std::vector<GroupSum> sums_of(bool is_first, bool backward) const {
    std::vector<GroupSum> sums = gv::group_sums(stages_.back(), backward, !is_first);
    for (GroupSum& sum : sums) sum = sum.times(spec_.trainer.batch);
    if (is_first && !backward && !sums.empty()) sums.insert(sums.begin(), group_batch_->sum());
    return sums;
  }

  std::size_t input_size(std::size_t stage) const {
    return spec_.trainer.batch * elements(plan(stage).in);
  }

  /// The group's first member draws a batch and writes each member's part of it to `out`. The other
  /// members write zeros.
  void give_batch(std::size_t draw, bool training, const GroupPlace& place, std::span<float> out) {
    if (!place.is_first()) {
      std::ranges::fill(out, 0.0F);
      return;
    }
    drawn_for_group_.resize(input_size(0) + truth_size());
    if (training) {
      draw_batch(draw, drawn_for_group_);
    } else {
      read_test(draw, drawn_for_group_);
    }
    group_batch_->give(drawn_for_group_, place, out);
  }

  /// Writes the inputs and then the labels or targets of the peer's batch `draw` of the run.
  void draw_batch(std::size_t draw, std::span<float> out) {
    const std::size_t size = spec_.trainer.batch;
    std::uint64_t position = position_;
    for (std::size_t i = 0; i < draw; ++i) position = sampler_.after(position, size);
    const Batch batch = sampler_.batch(position, size);
    std::ranges::copy(batch.inputs, out.begin());
    write_truth(batch, out.subspan(batch.inputs.size()));
  }

  /// Writes the inputs and then the labels or targets of batch `number` of the test samples.
  void read_test(std::size_t number, std::span<float> out) const {
    check(test_ != nullptr && test_->size() > 0, "a test has samples");
    const std::size_t size = spec_.trainer.batch;
    const std::size_t features = test_->features();
    const std::span<float> truth = out.subspan(size * features);
    const std::size_t width = truth.size() / size;
    for (std::size_t i = 0; i < size; ++i) {
      const std::size_t sample = (number * size + i) % test_->size();
      const Batch one = read_batch(*test_, sample, 1, out.subspan(i * features, features));
      write_truth(one, truth.subspan(i * width, width));
    }
  }

  void take_inputs(std::size_t stage, std::span<const float> in, Flight& flight) const {
    const std::size_t size = input_size(stage);
    check(in.size() == size + truth_size(), "a stage gets what passes its boundary");
    flight.inputs.assign(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(size));
    take_truth(stage, in.subspan(size), flight);
  }

  void take_truth(std::size_t stage, std::span<const float> truth, Flight& flight) const {
    flight.truth.assign(truth.begin(), truth.end());
    if (stage + 1 < stages() || shard_->classes == 0) return;
    // Labels come from other peers, so replace labels of classes that do not exist.
    const auto last = static_cast<float>(whole_.outputs / shard_->predictions - 1);
    flight.labels.resize(flight.truth.size());
    std::ranges::transform(flight.truth, flight.labels.begin(), [last](float label) {
      return static_cast<std::int32_t>(std::clamp(label, 0.0F, last));
    });
  }

  /// Computes the loss in the last stage. In other stages, writes outputs and truth to `out`.
  Score end_forward(std::size_t stage, Flight& flight, std::span<const float> outputs,
                    std::span<float> out) {
    if (stage + 1 == stages()) {
      flight.d_outputs.resize(outputs.size());
      return loss(outputs, flight);
    }
    check(out.size() == outputs.size() + flight.truth.size(),
          "a stage passes on what its boundary takes");
    std::ranges::copy(flight.truth, std::ranges::copy(outputs, out.begin()).out);
    return {};
  }

  /// The generator for dropout. It is the same for each pass of a micro-batch through a stage, so
  /// recomputation drops the same units.
  Rng dropout(std::size_t stage, std::uint32_t number) const {
    return Rng(spec_.trainer.seed).fork("dropout").fork(step_).fork(number).fork(stage);
  }

  std::size_t truth_size() const {
    return spec_.trainer.batch * (shard_->classes > 0 ? shard_->predictions : shard_->target_width);
  }

  /// Writes labels or targets. Labels are sent as floats, which hold whole numbers exactly up to
  /// 2^24.
  void write_truth(const Batch& batch, std::span<float> out) const {
    if (shard_->classes > 0) {
      std::ranges::transform(batch.labels, out.begin(),
                             [](std::int32_t label) { return static_cast<float>(label); });
    } else {
      std::ranges::copy(batch.targets, out.begin());
    }
  }

  Score loss(std::span<const float> outputs, Flight& flight) {
    if (flight.group && flight.group->loss()) {
      return {.loss = flight.group->loss()->loss,
              .correct = flight.group->loss()->correct,
              .samples = spec_.trainer.batch,
              .predictions = flight.labels.size()};
    }
    Batch batch{.inputs = {}, .labels = flight.labels, .targets = {}, .size = spec_.trainer.batch};
    if (shard_->classes == 0) batch.targets = flight.truth;
    return score_outputs(spec_.trainer.model.loss, outputs, batch, flight.d_outputs);
  }

  Flight& flight_of(std::size_t stage, std::uint32_t number) {
    const auto found = carried_[stage]->flights.find(number);
    check(found != carried_[stage]->flights.end(), "a micro-batch goes back after it went forward");
    return found->second;
  }

  /// The micro-batch in flight with its activations, which are recomputed if necessary.
  Flight& ready_flight(std::size_t stage, std::uint32_t number) {
    Flight& found = flight_of(stage, number);
    if (!found.network) {
      found.network = network_for(stage);
      Rng rng = dropout(stage, number);
      found.network->forward(*found.parameters, found.inputs, true, rng);
    }
    return found;
  }

  void land(std::size_t stage, std::uint32_t number) {
    CarriedStage& own = *carried_[stage];
    own.keep_memory(flight_of(stage, number));
    own.flights.erase(number);
  }

  Problems unsound_;
  StagesSpec spec_;
  std::shared_ptr<const DataSet> shard_;
  std::shared_ptr<const DataSet> test_;
  ModelPlan whole_;
  Sampler sampler_;
  std::vector<SlicedStage> stages_;
  /// The sums that groups make in a forward pass, by stage.
  std::vector<std::vector<GroupSum>> forward_sums_;
  std::vector<std::vector<GroupSum>> backward_sums_;
  std::optional<GroupBatch> group_batch_;  ///< Set by the constructor.
  /// The last batch that we drew for our group, kept so that its memory is reused.
  std::vector<float> drawn_for_group_;
  std::vector<std::size_t> test_sum_counts_;  ///< The number of forward sums in a test, by stage.
  std::vector<std::optional<CarriedStage>> carried_;
  std::uint64_t step_ = 0;
  std::uint64_t position_ = 0;
  std::uint64_t held_ = 0;
  Score tested_;  ///< Score of the current test.
};

}  // namespace

std::unique_ptr<StageLearner> built_in_stage_learner(StagesSpec spec,
                                                     std::shared_ptr<const DataSet> shard,
                                                     std::shared_ptr<const DataSet> test) {
  return std::make_unique<StageTrainer>(std::move(spec), std::move(shard), std::move(test));
}

}  // namespace gv
