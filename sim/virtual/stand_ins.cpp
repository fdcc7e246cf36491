// Plain gradient descent on objectives that take almost no time to compute.
#include "sim/virtual/stand_ins.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <numeric>
#include <string>
#include <type_traits>
#include <utility>

#include "base/check.hpp"
#include "base/magnitude.hpp"
#include "base/rng.hpp"
#include "peer/node/stage_replica.hpp"
#include "peer/node/whole_replica.hpp"

namespace gv {
namespace {

/// The curvature h_k of coordinate k. It rises geometrically with k from 0.1 to 1.
double curvature(const QuadraticSpec& spec, std::size_t k) {
  return 0.1 * std::pow(10.0, static_cast<double>(k + 1) / static_cast<double>(spec.dimension));
}

class QuadraticLearner final : public StandIn {
 public:
  QuadraticLearner(const QuadraticSpec& spec, std::size_t peer)
      : StandIn(std::vector<float>(spec.dimension, 0), spec.learning_rate),
        optimum_(quadratic_optimum(spec, peer)),
        noise_(spec.noise),
        draws_(Rng(spec.seed).fork("noise").fork(peer)) {
    for (std::size_t k = 0; k < spec.dimension; ++k) curvature_.push_back(curvature(spec, k));
  }

  double validation_loss() override {
    const std::span<const float> x = parameters();
    double loss = 0;
    for (std::size_t k = 0; k < x.size(); ++k) loss += loss_at(x[k] - optimum_[k], k);
    return loss;
  }

 private:
  Score step_at(std::uint64_t step, std::span<float> x) override {
    Rng draws = draws_.fork(step);
    Score score{.samples = 1, .predictions = 1};
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double apart = x[k] - optimum_[k];
      score.loss += loss_at(apart, k);
      x[k] -= static_cast<float>(learning_rate() * (curvature_[k] * apart + noise(draws)));
    }
    return score;
  }

  Score gradient_at(std::uint64_t step, std::span<const float> x, std::span<float> out) override {
    Rng draws = draws_.fork(step);
    Score score{.samples = 1, .predictions = 1};
    for (std::size_t k = 0; k < x.size(); ++k) {
      const double apart = x[k] - optimum_[k];
      score.loss += loss_at(apart, k);
      out[k] = static_cast<float>(curvature_[k] * apart + noise(draws));
    }
    return score;
  }

  double loss_at(double apart, std::size_t k) const { return 0.5 * curvature_[k] * apart * apart; }

  /// Noise is uniform, because bias and variance depend only on the noise's mean and deviation.
  /// Normal draws would take more time than everything else in a world.
  double noise(Rng& draws) const { return noise_ * std::sqrt(12.0) * (draws.uniform() - 0.5); }

  std::vector<double> optimum_;
  std::vector<double> curvature_;
  double noise_;
  Rng draws_;
};

class IdleLearner final : public StandIn {
 public:
  IdleLearner(std::vector<float> parameters, std::size_t peer)
      : StandIn(std::move(parameters), 0.01), peer_(peer) {}

  double validation_loss() override { return 0; }

  /// Makes all steps at once, because they compute nothing.
  Score run_steps(std::uint64_t count, const Direct& direct) override {
    if (direct) return StandIn::run_steps(count, direct);
    go_on_at(step() + count);
    return {.samples = count, .predictions = count};
  }

 private:
  Score step_at(std::uint64_t, std::span<float>) override {
    return {.samples = 1, .predictions = 1};
  }

  /// Draws values, so that the gradients of different peers differ.
  Score gradient_at(std::uint64_t step, std::span<const float>, std::span<float> out) override {
    Rng draws = Rng(peer_).fork(step);
    for (float& value : out) value = static_cast<float>(draws.uniform() - 0.5);
    return {.samples = 1, .predictions = 1};
  }

  std::size_t peer_;
};

/// The merit of a model after `step` steps. It rises from 0 to 1, and is a half after fifty steps.
double merit_after(std::uint64_t step) {
  const auto steps = static_cast<double>(step);
  return steps / (50 + steps);
}

class IdleStageLearner final : public StageLearner {
 public:
  explicit IdleStageLearner(const std::vector<StageSize>& sizes) : sizes_(sizes) {
    for (std::size_t stage = 0; stage < sizes.size(); ++stage) {
      layouts_.emplace_back().add("parameters", {size_of(stage, {0, slices(stage)})});
      whole_.add("stage" + std::to_string(stage) + ".parameters", {layouts_.back().size()});
    }
  }

  std::size_t stages() const override { return sizes_.size(); }
  const Layout& layout(std::size_t stage) const override { return layouts_[stage]; }
  const Layout& whole_layout() const override { return whole_; }
  double work_share(std::size_t) const override { return 1 / static_cast<double>(stages()); }
  BoundarySize boundary(std::size_t stage) const override {
    if (stage == sizes_.size()) return {};
    return {sizes_[stage].backward, sizes_[stage].forward - sizes_[stage].backward};
  }
  std::uint64_t step() const override { return step_; }
  double learning_rate() const override { return 0; }

  std::size_t slices(std::size_t stage) const override { return sizes_[stage].slices.size(); }
  void take_up(std::size_t stage, const Range& slices) override {
    const auto [entry, is_new] = now_.try_emplace(stage);
    Own& held = entry->second;
    if (!is_new && held.slices == slices) return;
    Own own{.slices = slices, .values = std::vector<float>(size_of(stage, slices), 0)};
    if (!is_new) {
      const auto keep = [&](const PartOfStage& part) {
        std::ranges::copy(part_of(held, part), part_of(own, part).begin());
      };
      keep({.stage = stage});
      const Range& before = held.slices;
      for (std::size_t slice = std::max(before.begin, slices.begin);
           slice < std::min(before.end, slices.end); ++slice) {
        keep({.stage = stage, .slice = slice});
      }
    }
    held = std::move(own);
    held_layouts_[stage] = {};
    held_layouts_[stage].add("parameters", {held.values.size()});
    before_run_ = now_;
  }
  void release(std::size_t stage) override {
    now_.erase(stage);
    before_run_ = now_;
  }
  bool carries(std::size_t stage) const override { return now_.contains(stage); }
  Range held(std::size_t stage) const override { return now_.at(stage).slices; }
  std::span<const float> parameters(std::size_t stage) const override {
    return now_.at(stage).values;
  }
  const Layout& held_layout(std::size_t stage) const override { return held_layouts_.at(stage); }
  std::vector<Range> held_ranges(std::size_t stage) const override {
    const std::size_t common = size({.stage = stage});
    const Range slices{size_of(stage, {0, held(stage).begin}),
                       size_of(stage, {0, held(stage).end})};
    return {{0, common}, slices};
  }

  using StageLearner::adopt_state;
  using StageLearner::copy_state;
  using StageLearner::state_size;
  using StageLearner::take_up;
  std::size_t size(const PartOfStage& part) const override {
    const StageSize& stage = sizes_[part.stage];
    return part.slice ? stage.slices[*part.slice].parameters : stage.parameters;
  }
  std::size_t state_size(const PartOfStage& part) const override {
    const StageSize& stage = sizes_[part.stage];
    return part.slice ? stage.slices[*part.slice].state : stage.state;
  }
  void copy_state(const PartOfStage& part, std::span<float> out) const override {
    std::ranges::fill(out, 0.0F);
    std::ranges::copy(part_of(now_.at(part.stage), part), out.begin());
  }
  void adopt_state(const PartOfStage& part, std::span<const float> state) override {
    if (!carries(part.stage)) take_up(part.stage);
    std::ranges::copy(state.first(size(part)), part_of(now_.at(part.stage), part).begin());
    before_run_ = now_;
  }
  OptimizerState optimizer_state(std::size_t) const override { return {.step = step_}; }
  std::string restore(std::size_t stage, std::span<const float> parameters,
                      const OptimizerState& state) override {
    if (!carries(stage)) take_up(stage);
    std::ranges::copy(parameters, now_.at(stage).values.begin());
    before_run_ = now_;
    step_ = state.step;
    return {};
  }
  void move_to(std::uint64_t step) override {
    step_ = step;
    before_run_ = now_;
  }

  Score forward(std::size_t, std::uint32_t, std::size_t, std::uint32_t, std::span<const float>,
                std::span<float> out) override {
    std::ranges::fill(out, 0.0F);
    return {};
  }
  void backward(std::size_t stage, std::uint32_t number, std::span<const float> d_out,
                std::span<float> d_in, const HeldValues<float>& gradient) override {
    backward_input(stage, number, d_out, d_in);
    backward_weight(stage, number, gradient);
  }
  void backward_input(std::size_t, std::uint32_t, std::span<const float>,
                      std::span<float> d_in) override {
    std::ranges::fill(d_in, 0.0F);
  }
  void backward_weight(std::size_t stage, std::uint32_t number,
                       const HeldValues<float>& gradient) override {
    // In a group, a wrong sum has set the factor to 0, so that the gradient lacks this micro-batch.
    Range common{0, gradient.common.size()};
    float factor = 1;
    if (const auto passed = passed_.find({stage, number}); passed != passed_.end()) {
      common = own_part(passed->second.place, gradient.common.size());
      factor = passed->second.factor;
      passed_.erase(passed);
    }
    for (std::size_t i = common.begin; i < common.end; ++i) gradient.common[i] += factor;
    for (float& value : gradient.slices) value += factor;
  }

  std::vector<GroupSum> group_sums(std::size_t stage, bool backward) const override {
    return backward ? sizes_[stage].backward_sums : sizes_[stage].forward_sums;
  }
  Score forward_part(const PassPart& pass, const GroupPlace& place, std::size_t,
                     std::span<const float> in, std::span<float> out) override {
    if (pass.part == 0) passed_[{pass.stage, pass.number}] = {.place = place};
    sum_with_group(pass, in, out, sizes_[pass.stage].forward_sums);
    return {};
  }
  void backward_part(const PassPart& pass, std::span<const float> in,
                     std::span<float> out) override {
    sum_with_group(pass, in, out, sizes_[pass.stage].backward_sums);
  }

  void test(std::size_t, std::size_t, std::span<const float>, std::span<float> out) override {
    std::ranges::fill(out, 0.0F);
  }
  void test_part(const PassPart& pass, const GroupPlace& place, std::size_t,
                 std::span<const float> in, std::span<float> out) override {
    if (pass.part == 0) passed_[{pass.stage, pass.number}] = {.place = place};
    const std::vector<GroupSum> sums = sums_in_tests(sizes_[pass.stage].forward_sums);
    sum_with_group(pass, in, out, sums);
    if (pass.part < sums.size()) return;
    are_tests_sound_ &= passed_.at({pass.stage, pass.number}).factor == 1;
    passed_.erase({pass.stage, pass.number});
  }
  /// The same merit as that of a stand-in for a complete model, but 0 if a sum in the test was
  /// wrong.
  double test_merit() override {
    return std::exchange(are_tests_sound_, true) ? merit_after(step_) : 0;
  }

  void update(std::size_t stage, const HeldValues<const float>& sum,
              std::size_t micro_batches) override {
    std::vector<float>& x = now_.at(stage).values;
    const std::size_t common = sum.common.size();
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] -=
          (i < common ? sum.common[i] : sum.slices[i - common]) / static_cast<float>(micro_batches);
    }
  }
  void add(std::size_t stage, std::span<const float> force, float scale) override {
    std::vector<float>& x = now_.at(stage).values;
    for (std::size_t i = 0; i < x.size(); ++i) x[i] += scale * force[i];
  }
  void set(std::size_t stage, std::span<const float> values) override {
    std::ranges::copy(values, now_.at(stage).values.begin());
  }

  void end_run(std::size_t) override {
    ++step_;
    before_run_ = now_;
  }
  /// Restores the state from before the run, because some of the run's updates may already be made.
  void abandon_run() override {
    now_ = before_run_;
    passed_.clear();
    are_tests_sound_ = true;
  }

 private:
  /// The parts of a stage that this peer holds: the part common to all carriers, and then slices.
  struct Own {
    Range slices;
    std::vector<float> values;
  };
  using Stages = std::map<std::size_t, Own>;
  /// A micro-batch while a group takes it through a stage.
  struct Passed {
    GroupPlace place;
    float factor = 1;  ///< 0 if a sum was wrong.
  };

  std::size_t size_of(std::size_t stage, const Range& slices) const {
    std::size_t size = sizes_[stage].parameters;
    for (std::size_t s = slices.begin; s < slices.end; ++s) {
      size += sizes_[stage].slices[s].parameters;
    }
    return size;
  }

  template <class Some>
  std::span<std::conditional_t<std::is_const_v<Some>, const float, float>> part_of(
      Some& own, const PartOfStage& part) const {
    const std::span all(own.values);
    if (!part.slice) return all.first(size(part));
    return all.subspan(size_of(part.stage, {own.slices.begin, *part.slice}), size(part));
  }

  /// The member's part of a vector of this size.
  static Range own_part(const GroupPlace& place, std::size_t size) {
    return {size * place.own / place.members, size * (place.own + 1) / place.members};
  }

  /// Every member adds 1 in its own part of each sum, so a complete sum is 1 everywhere. If the
  /// first member hands out parts instead of summing, each value identifies its place and its
  /// micro-batch.
  void sum_with_group(const PassPart& pass, std::span<const float> in, std::span<float> out,
                      const std::vector<GroupSum>& sums) {
    Passed& passed = passed_.at({pass.stage, pass.number});
    const auto is_dealt = [&](std::size_t part) { return !sums[part].dealt.empty(); };
    if (pass.part > 0 && is_dealt(pass.part - 1)) {
      const Range own = sums[pass.part - 1].parts(passed.place.cuts)[passed.place.own];
      for (std::size_t i = own.begin; i < own.end; ++i) {
        if (in[i] != static_cast<float>(i + pass.number)) passed.factor = 0;
      }
    } else if (pass.part > 0) {
      // Compare the bits of every value, which is faster than stopping at a wrong one.
      std::uint32_t wrong_bits = 0;
      for (const float value : in) {
        wrong_bits |= std::bit_cast<std::uint32_t>(value) ^ std::bit_cast<std::uint32_t>(1.0F);
      }
      if (wrong_bits != 0) passed.factor = 0;
    }
    std::ranges::fill(out, 0.0F);
    if (pass.part == sums.size()) return;
    if (is_dealt(pass.part)) {
      const auto first = static_cast<float>(pass.number);
      if (passed.place.is_first()) std::iota(out.begin(), out.end(), first);
    } else {
      const Range own = own_part(passed.place, out.size());
      std::ranges::fill(out.subspan(own.begin, own.size()), 1.0F);
    }
  }

  std::vector<StageSize> sizes_;
  std::vector<Layout> layouts_;
  std::map<std::size_t, Layout> held_layouts_;
  Layout whole_;
  Stages now_;
  Stages before_run_;  ///< The state that abandon_run() restores.
  std::map<std::pair<std::size_t, std::uint32_t>, Passed> passed_;  ///< Keyed by stage and number.
  bool are_tests_sound_ = true;
  std::uint64_t step_ = 0;
};

}  // namespace

StandIn::StandIn(std::vector<float> parameters, double learning_rate)
    : parameters_(std::move(parameters)),
      bound_(largest_magnitude(parameters_)),
      learning_rate_(learning_rate) {
  layout_.add("x", {parameters_.size()});
}

void StandIn::join_population(double learning_rate) {
  in_population_ = true;
  learning_rate_ = learning_rate;
}

Score StandIn::run_steps(std::uint64_t count, const Direct& direct) {
  Score score;
  std::vector<float> slope(direct ? parameters_.size() : 0);
  for (std::uint64_t i = 0; i < count; ++i, ++step_) {
    if (direct) {
      score += gradient_at(step_, parameters_, slope);
      direct(slope);
      descend(parameters_, slope);
    } else {
      score += step_at(step_, parameters_);
    }
    if (holds_steps_) hold(first_largest_);
  }
  return score;
}

Score StandIn::gradient(std::size_t, std::span<float> out, const ReadyRange&,
                        std::span<const std::size_t>) {
  return gradient_at(step_, parameters_, out);
}

void StandIn::update(std::span<const float> mean, std::size_t) {
  change_by_others([&](std::span<float> x) { descend(x, mean); });
  ++step_;
}

void StandIn::end_local_steps(std::span<const float> parameters, std::uint64_t steps) {
  change_by_others([&](std::span<float> x) { std::ranges::copy(parameters, x.begin()); });
  step_ += steps;
}

void StandIn::change_by_others(const Change& change) {
  const float before = holds_steps_ ? first_largest_ : largest_magnitude(parameters_);
  change(parameters_);
  hold(before);
}

void StandIn::hold_steps(bool always) {
  if (always && !holds_steps_) first_largest_ = largest_magnitude(parameters_);
  holds_steps_ = always;
}

void StandIn::hold(float before) {
  const float after = largest_magnitude(parameters_);
  held_ += bound_.hold(parameters_, before, after) == after ? 0 : 1;
}

Score StandIn::local_steps(std::uint64_t steps, std::size_t, std::span<float> out) {
  std::vector<float> x = parameters_;
  Score score;
  for (std::uint64_t i = 0; i < steps; ++i) {
    score += gradient_at(step_ + i, x, out);
    descend(x, out);
  }
  for (std::size_t i = 0; i < x.size(); ++i) out[i] = parameters_[i] - x[i];
  return score;
}

double StandIn::test_merit() { return merit_after(step_); }

void StandIn::descend(std::span<float> x, std::span<const float> gradient) const {
  const auto rate = static_cast<float>(learning_rate());
  // Use pointers: checks of every index would keep the compiler from vectorising the loop.
  float* const to = x.data();
  const float* const slope = gradient.first(x.size()).data();
  const std::size_t size = x.size();
  for (std::size_t i = 0; i < size; ++i) to[i] -= rate * slope[i];
}

std::unique_ptr<StandIn> quadratic_learner(const QuadraticSpec& spec, std::size_t peer) {
  return std::make_unique<QuadraticLearner>(spec, peer);
}

std::vector<double> quadratic_optimum(const QuadraticSpec& spec, std::size_t peer) {
  Rng rng = Rng(spec.seed).fork("optimum").fork(peer);
  std::vector<double> optimum;
  for (std::size_t k = 0; k < spec.dimension; ++k) {
    optimum.push_back(1 + spec.disagreement * rng.normal());
  }
  return optimum;
}

std::vector<double> common_optimum(const QuadraticSpec& spec, std::size_t peers) {
  std::vector<std::size_t> all(peers);
  std::iota(all.begin(), all.end(), std::size_t{0});
  return common_optimum(spec, all);
}

std::vector<double> common_optimum(const QuadraticSpec& spec, std::span<const std::size_t> peers) {
  std::vector<double> mean(spec.dimension);
  for (const std::size_t peer : peers) {
    const std::vector<double> own = quadratic_optimum(spec, peer);
    for (std::size_t k = 0; k < mean.size(); ++k) {
      mean[k] += own[k] / static_cast<double>(peers.size());
    }
  }
  return mean;
}

double quadratic_excess(const QuadraticSpec& spec, std::span<const double> optimum,
                        std::span<const float> model) {
  double excess = 0;
  for (std::size_t k = 0; k < optimum.size(); ++k) {
    const double apart = model[k] - optimum[k];
    excess += 0.5 * curvature(spec, k) * apart * apart;
  }
  return excess;
}

std::unique_ptr<StandIn> idle_learner(std::size_t dimension, std::uint64_t seed, std::size_t peer,
                                      bool alike) {
  Rng rng = Rng(seed).fork("idle").fork(alike ? 0 : peer);
  std::vector<float> parameters(dimension);
  for (float& value : parameters) value = static_cast<float>(rng.normal());
  return std::make_unique<IdleLearner>(std::move(parameters), peer);
}

std::unique_ptr<StageLearner> idle_stage_learner(const std::vector<StageSize>& sizes) {
  return std::make_unique<IdleStageLearner>(sizes);
}

std::unique_ptr<Replica> idle_stage_workload(const std::vector<StageSize>& sizes) {
  return std::make_unique<StageReplica>(idle_stage_learner(sizes));
}

std::unique_ptr<Replica> quadratic_workload(const QuadraticSpec& spec, std::size_t peer,
                                            const LocalSteps& local) {
  return std::make_unique<WholeReplica>(quadratic_learner(spec, peer), peer, local);
}

std::unique_ptr<Replica> idle_workload(std::size_t dimension, std::uint64_t seed, std::size_t peer,
                                       bool alike, const LocalSteps& local) {
  return std::make_unique<WholeReplica>(idle_learner(dimension, seed, peer, alike), peer, local);
}

}  // namespace gv
