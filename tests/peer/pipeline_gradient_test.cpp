// Pipelines of real stages, in every schedule, compared with one model trained serially.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <memory>
#include <vector>

#include "base/magnitude.hpp"
#include "consensus/pipeline/schedule.hpp"
#include "train/built_in_learner.hpp"
#include "train/data/generated.hpp"
#include "train/data/sampler.hpp"
#include "train/evaluation.hpp"
#include "train/model.hpp"
#include "train/model_stages.hpp"
#include "train/optimizer.hpp"

namespace gv {
namespace {

using Action = PipelineAction;
using Vector = std::vector<float>;

constexpr std::size_t micro_batch = 4;

/// Seven layers with parameters, of different sizes.
ModelSpec deep_model(bool dropout) {
  ModelSpec spec = mlp({24, 9, 16, 5, 12, 20}, 3);
  if (dropout)
    spec.layers.insert(spec.layers.begin() + 3, {.kind = LayerKind::dropout, .rate = 0.3});
  return spec;
}

/// The end of each of `stages` stages: one past its last layer. The stages are unequal on purpose.
std::vector<std::size_t> cut(const ModelSpec& model, std::size_t stages) {
  std::vector<std::size_t> ends;
  for (std::size_t s = 1; s < stages; ++s) ends.push_back(2 * s);
  ends.push_back(model.layers.size());
  return ends;
}

std::shared_ptr<const DataSet> blobs() {
  return std::make_shared<const DataSet>(
      generate_blobs({.samples = 300, .features = 10, .classes = 3, .noise = 1, .seed = 3}, 0));
}

StagesSpec spec_of(std::size_t stages, std::size_t updates = 1, bool dropout = false) {
  const ModelSpec model = deep_model(dropout);
  return {.trainer = {.model = model,
                      .optimizer = {.kind = OptimizerKind::nesterov},
                      .schedule = {.learning_rate = 0.05},
                      .batch = micro_batch,
                      .steps = 100,
                      .seed = 9,
                      .peer = 2},
          .ends = cut(model, stages),
          .keeps_versions = updates > 1};
}

/// Executes the instructions of a schedule one after another, with one trainer for each worker.
class Pipeline {
 public:
  Pipeline(const StagesSpec& spec, std::size_t workers, std::size_t each) : each_(each) {
    for (std::size_t w = 0; w < workers; ++w)
      trainers_.push_back(built_in_stage_learner(spec, blobs()));
  }

  void run(const PipelineSchedule& schedule) {
    std::vector<std::size_t> positions(schedule.workers.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t w = 0; w < positions.size(); ++w) {
        while (positions[w] < schedule.workers[w].size() &&
               carry_out(w, schedule.workers[w][positions[w]])) {
          ++positions[w];
          moved = true;
        }
      }
    }
    for (std::size_t w = 0; w < positions.size(); ++w) {
      REQUIRE(positions[w] == schedule.workers[w].size());
    }
    for (const auto& trainer : trainers_) trainer->end_run(schedule.micro_batches);
    forward_.clear();
    backward_.clear();
    sums_.clear();
  }

  Vector parameters(std::size_t stage) {
    const auto values = trainers_[home_.at(stage)]->parameters(stage);
    return {values.begin(), values.end()};
  }

 private:
  bool carry_out(std::size_t worker, const PipelineInstruction& what) {
    StageLearner& trainer = *trainers_[worker];
    const std::size_t s = what.stage;
    const std::size_t last = trainer.stages() - 1;
    trainer.take_up(s);
    home_[s] = worker;
    const std::pair key{what.micro_batch, what.stage};
    Vector& sum = sums_[{worker, s}];
    if (sum.empty()) sum.resize(trainer.layout(s).size());
    Vector in;
    Vector out;
    switch (what.action) {
      case Action::forward:
        if (s > 0) {
          if (!forward_.contains(key)) return false;
          in = forward_[key];
        }
        out.resize(trainer.boundary(s + 1).forward());
        trainer.forward(s, what.micro_batch, what.micro_batch, what.version, in, out);
        forward_[{what.micro_batch, what.stage + 1}] = out;
        return true;
      case Action::backward:
      case Action::backward_input:
        if (s < last) {
          if (!backward_.contains(key)) return false;
          in = backward_[key];
        }
        out.resize(trainer.boundary(s).activations);
        if (what.action == Action::backward) {
          trainer.backward(s, what.micro_batch, in, out, sum);
        } else {
          trainer.backward_input(s, what.micro_batch, in, out);
        }
        if (s > 0) backward_[{what.micro_batch, what.stage - 1}] = out;
        return true;
      case Action::backward_weight:
        trainer.backward_weight(s, what.micro_batch, sum);
        return true;
      case Action::update:
        trainer.update(s, sum, each_);
        sum.assign(sum.size(), 0);
        return true;
    }
    return false;
  }

  std::size_t each_;  ///< Number of micro-batches in an update.
  std::vector<std::unique_ptr<StageLearner>> trainers_;
  std::map<std::size_t, std::size_t> home_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Vector> forward_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, Vector> backward_;
  std::map<std::pair<std::size_t, std::size_t>, Vector> sums_;
};

/// The whole model on one peer. `version_of(b, s)` is the number of updates in the parameters of
/// stage s that micro-batch b uses.
class Serial {
 public:
  explicit Serial(const StagesSpec& spec)
      : data_(blobs()),
        model_(spec.trainer.model, data_->shape, micro_batch),
        sampler_(data_, spec.trainer.seed, spec.trainer.peer),
        optimizer_(spec.trainer.optimizer, model_.layout().size()),
        parameters_(model_.layout().size()) {
    model_.initialise(parameters_, Rng(spec.trainer.seed).fork("model"));
    const auto stages = built_in_stage_learner(spec, data_);
    for (std::size_t s = 0; s < stages->stages(); ++s) sizes_.push_back(stages->layout(s).size());
  }

  template <class VersionOf>
  void run(std::size_t micro_batches, std::size_t each, VersionOf version_of) {
    std::vector<Vector> versions{parameters_};
    Vector sum(parameters_.size());
    Vector one(parameters_.size());
    Rng unused(0);
    for (std::size_t b = 0; b < micro_batches; ++b) {
      Vector met;
      std::size_t offset = 0;
      for (std::size_t s = 0; s < sizes_.size(); ++s) {
        const Vector& version = versions[version_of(b, s)];
        met.insert(met.end(), version.begin() + static_cast<std::ptrdiff_t>(offset),
                   version.begin() + static_cast<std::ptrdiff_t>(offset + sizes_[s]));
        offset += sizes_[s];
      }
      model_.gradient(met, sampler_.batch(position_, micro_batch), one, unused);
      position_ = sampler_.after(position_, micro_batch);
      for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += one[i];
      if ((b + 1) % each != 0) continue;
      for (float& value : sum) value *= 1 / static_cast<float>(each);
      optimizer_.step(parameters_, sum, 0.05);
      versions.push_back(parameters_);
      sum.assign(sum.size(), 0);
    }
  }

  Vector stage(std::size_t stage) const {
    std::size_t offset = 0;
    for (std::size_t s = 0; s < stage; ++s) offset += sizes_[s];
    return {parameters_.begin() + static_cast<std::ptrdiff_t>(offset),
            parameters_.begin() + static_cast<std::ptrdiff_t>(offset + sizes_[stage])};
  }

 private:
  std::shared_ptr<const DataSet> data_;
  Model model_;
  Sampler sampler_;
  Optimizer optimizer_;
  Vector parameters_;
  std::vector<std::size_t> sizes_;
  std::uint64_t position_ = 0;
};

constexpr auto newest = [](std::size_t, std::size_t) { return std::size_t{0}; };

}  // namespace

TEST_CASE("pipelines in lockstep are the serial run bit for bit") {
  for (const PipelineKind kind :
       {PipelineKind::gpipe, PipelineKind::one_f_one_b, PipelineKind::zero_bubble}) {
    for (std::size_t p = 1; p <= 6; ++p) {
      for (std::size_t m = 1; m <= 9; ++m) {
        const StagesSpec spec = spec_of(p);
        Pipeline pipeline(spec, p, m);
        Serial serial(spec);
        for (std::size_t run = 0; run < 3; ++run) {
          pipeline.run(make_schedule(kind, straight_routes(p, m), p, 0, run));
          serial.run(m, m, newest);
        }
        INFO(to_string(kind) << ", " << p << " stages, " << m << " micro-batches");
        for (std::size_t s = 0; s < p; ++s) REQUIRE(pipeline.parameters(s) == serial.stage(s));
      }
    }
  }
}

TEST_CASE("stages with ternary weights are the serial run with these") {
  for (const PipelineKind kind : {PipelineKind::one_f_one_b, PipelineKind::zero_bubble}) {
    for (const bool recomputes : {false, true}) {
      if (recomputes && kind == PipelineKind::zero_bubble) continue;
      StagesSpec spec = spec_of(3);
      spec.recomputes = recomputes;
      const auto trained = [&](WeightValues weights) {
        spec.trainer.model.weights = weights;
        Pipeline pipeline(spec, 3, 4);
        Serial serial(spec);
        for (std::size_t run = 0; run < 2; ++run) {
          pipeline.run(make_schedule(kind, straight_routes(3, 4), 3, 0, run));
          serial.run(4, 4, newest);
        }
        for (std::size_t s = 0; s < 3; ++s) REQUIRE(pipeline.parameters(s) == serial.stage(s));
        return pipeline.parameters(0);
      };
      CHECK(trained(WeightValues::ternary) != trained(WeightValues::floats));
    }
  }
}

TEST_CASE("PipeDream is a serial run in which every stage's parameters are of its own age") {
  for (std::size_t p = 1; p <= 6; ++p) {
    constexpr std::size_t m = 12;
    const StagesSpec spec = spec_of(p, m);
    Pipeline pipeline(spec, p, 1);
    Serial serial(spec);
    for (int run = 0; run < 2; ++run) {
      pipeline.run(make_schedule(PipelineKind::pipedream, straight_routes(p, m), p));
      // With p stages, step size eta and gradient grad_s of stage s: w_s(t+1) = w_s(t) - eta
      // grad_s(w_0(t-p+1), ..., w_{p-1}(t)).
      serial.run(m, 1, [p](std::size_t b, std::size_t s) {
        const std::size_t age = p - 1 - s;
        return b > age ? b - age : 0;
      });
    }
    for (std::size_t s = 0; s < p; ++s) REQUIRE(pipeline.parameters(s) == serial.stage(s));
  }
}

TEST_CASE("2BW is a serial run delayed by one update") {
  for (std::size_t p = 1; p <= 4; ++p) {
    for (const auto& [each, ahead] :
         {std::pair(p, std::size_t{0}), std::pair(p + 1, std::size_t{1}),
          std::pair(2 * p, std::size_t{2})}) {
      const StagesSpec spec = spec_of(p, 5);
      Pipeline pipeline(spec, p, each);
      Serial serial(spec);
      pipeline.run(
          make_schedule(PipelineKind::two_bw, straight_routes(p, 5 * each), p, each, ahead));
      serial.run(5 * each, each, [group = each](std::size_t b, std::size_t) {
        const std::size_t update = b / group;
        return update > 0 ? update - 1 : 0;
      });
      for (std::size_t s = 0; s < p; ++s) REQUIRE(pipeline.parameters(s) == serial.stage(s));
    }
  }
}

TEST_CASE("activations computed again are the same also with dropout") {
  for (const bool first : {false, true}) {
    StagesSpec spec = spec_of(3, 1, true);
    spec.recomputes = first;
    Pipeline again(spec, 3, 5);
    spec.recomputes = !first;
    Pipeline kept(spec, 3, 5);
    for (int run = 0; run < 3; ++run) {
      again.run(make_schedule(PipelineKind::one_f_one_b, straight_routes(3, 5), 3));
      kept.run(make_schedule(PipelineKind::zero_bubble, straight_routes(3, 5), 3));
    }
    for (std::size_t s = 0; s < 3; ++s) REQUIRE(again.parameters(s) == kept.parameters(s));
  }
}

TEST_CASE("a run that was given up leaves no trace") {
  const StagesSpec spec = spec_of(1);
  const auto trainer = built_in_stage_learner(spec, blobs());
  const auto other = built_in_stage_learner(spec, blobs());
  Vector sum(trainer->layout(0).size());
  trainer->take_up(0);
  other->take_up(0);
  trainer->forward(0, 0, 0, 0, {}, {});
  trainer->forward(0, 1, 1, 0, {}, {});
  trainer->backward(0, 0, {}, {}, sum);
  trainer->abandon_run();
  for (StageLearner* one : {trainer.get(), other.get()}) {
    sum.assign(sum.size(), 0);
    for (std::uint32_t b = 0; b < 4; ++b) {
      one->forward(0, b, b, 0, {}, {});
      one->backward(0, b, {}, {}, sum);
    }
    one->update(0, sum, 4);
    one->end_run(4);
  }
  const auto a = trainer->parameters(0);
  const auto b = other->parameters(0);
  CHECK(std::vector(a.begin(), a.end()) == std::vector(b.begin(), b.end()));
}

TEST_CASE("no sum makes a stage absurdly large and replicas stay the same") {
  const auto first = built_in_stage_learner(spec_of(2), blobs());
  const auto second = built_in_stage_learner(spec_of(2), blobs());
  first->take_up(1);
  second->take_up(1);
  const float most = 1000 * std::max(1.0F, largest_magnitude(first->parameters(1)));
  Vector sum(first->layout(1).size(), largest_gradient);
  for (std::size_t i = 0; i < sum.size(); i += 3) sum[i] = -largest_gradient;
  for (int i = 0; i < 3; ++i) {
    first->update(1, sum, 1);
    second->update(1, sum, 1);
  }
  const auto a = first->parameters(1);
  const auto b = second->parameters(1);
  CHECK(largest_magnitude(a) <= most);
  CHECK(std::vector(a.begin(), a.end()) == std::vector(b.begin(), b.end()));
  CHECK(first->held() == 3);
  first->add(1, sum, 1);
  CHECK(largest_magnitude(first->parameters(1)) <= most);
  first->set(1, sum);
  CHECK(largest_magnitude(first->parameters(1)) <= most);
}

TEST_CASE("a stage that is read with large parameters keeps them") {
  const auto trainer = built_in_stage_learner(spec_of(2), blobs());
  const Vector large(trainer->layout(1).size(), 5000);
  trainer->take_up(1);
  const OptimizerState state = trainer->optimizer_state(1);
  CHECK(trainer->restore(1, large, state).empty());
  trainer->add(1, Vector(large.size(), 0), 1);
  CHECK(trainer->parameters(1)[0] == 5000);
  CHECK(trainer->held() == 0);
}

TEST_CASE("a stage takes over no state that no optimiser can have made") {
  StagesSpec spec = spec_of(2);
  for (const OptimizerKind kind : {OptimizerKind::nesterov, OptimizerKind::adam}) {
    spec.trainer.optimizer.kind = kind;
    const auto trainer = built_in_stage_learner(spec, blobs());
    trainer->take_up(1);
    const std::size_t size = trainer->layout(1).size();
    Vector state(trainer->state_size(1), kind == OptimizerKind::adam ? -1.0F : 1e38F);
    std::fill_n(state.begin(), size, 0.5F);
    trainer->adopt_state(1, state);
    CHECK(trainer->parameters(1)[0] == 0.5F);
    Vector none(size, 0);
    for (int i = 0; i < 3; ++i) trainer->update(1, none, 1);
    CHECK(is_finite(trainer->parameters(1)));
    CHECK(trainer->parameters(1)[0] == 0.5F);
  }
}

TEST_CASE("a label of a class that does not exist ends no peer") {
  const auto trainer = built_in_stage_learner(spec_of(2), blobs());
  trainer->take_up(1);
  const BoundarySize size = trainer->boundary(1);
  for (const float label : {largest_gradient, -largest_gradient, 3.0F, -1.0F}) {
    Vector in(size.activations, 1);
    in.resize(size.forward(), label);
    CHECK(trainer->forward(1, 0, 0, 0, in, {}).samples == micro_batch);
    trainer->abandon_run();
  }
}

TEST_CASE("a test in stages is the evaluation of the whole model, and leaves no trace") {
  const StagesSpec spec = spec_of(3, 1, true);
  const auto test = std::make_shared<const DataSet>(
      generate_blobs({.samples = 20, .features = 10, .classes = 3, .noise = 2, .seed = 3}, 1));
  const auto trainer = built_in_stage_learner(spec, blobs(), test);
  Vector all;
  for (std::size_t s = 0; s < 3; ++s) {
    trainer->take_up(s);
    all.insert(all.end(), trainer->parameters(s).begin(), trainer->parameters(s).end());
  }
  const auto take = [&](std::size_t number) {
    Vector in, out;
    for (std::size_t s = 0; s < 3; ++s) {
      out.assign(trainer->boundary(s + 1).forward(), 0);
      trainer->test(s, number, in, out);
      in = out;
    }
  };
  CHECK(trainer->test_merit() == 0);
  for (std::size_t b = 0; b < 5; ++b) take(b);
  Model model(spec.trainer.model, test->shape, evaluation_batch(*test));
  const double wanted = evaluate(model, all, *test).accuracy();
  CHECK(trainer->test_merit() == wanted);
  // Abandoning a run also discards its unfinished test. The next test takes all samples again.
  take(3);
  trainer->abandon_run();
  for (std::size_t b = 5; b < 10; ++b) take(b);
  CHECK(trainer->test_merit() == wanted);
  Vector after;
  for (std::size_t s = 0; s < 3; ++s) {
    after.insert(after.end(), trainer->parameters(s).begin(), trainer->parameters(s).end());
  }
  CHECK(after == all);
}

TEST_CASE("R2 of a test in stages is that of the whole model") {
  StagesSpec spec = spec_of(2);
  spec.trainer.model.loss = LossKind::squared;
  const auto data = [](std::uint64_t stream) {
    return std::make_shared<const DataSet>(
        generate_linear({.samples = 24, .features = 10, .targets = 3, .seed = 3}, stream));
  };
  const auto trainer = built_in_stage_learner(spec, data(0), data(1));
  Vector all, out;
  for (std::size_t s = 0; s < 2; ++s) {
    trainer->take_up(s);
    all.insert(all.end(), trainer->parameters(s).begin(), trainer->parameters(s).end());
  }
  out.resize(trainer->boundary(1).forward());
  for (std::size_t b = 0; b < 6; ++b) {
    trainer->test(0, b, {}, out);
    trainer->test(1, b, out, {});
  }
  Model model(spec.trainer.model, data(1)->shape, evaluation_batch(*data(1)));
  const double wanted = determination(evaluate(model, all, *data(1)), *data(1));
  CHECK(trainer->test_merit() == Approx(wanted));
}

TEST_CASE("a cut that does not fit the model is refused with the number of its layers") {
  const ModelSpec model = deep_model(false);
  const SampleShape shape{10, 1, 1};
  CHECK(cut_problems(model, shape, {2, 13}).empty());
  for (const std::vector<std::size_t>& ends :
       {std::vector<std::size_t>{}, {2, 12}, {5, 5, 13}, {0, 13}, {2, 14}}) {
    const Problems found = cut_problems(model, shape, ends);
    REQUIRE(found.size() == 1);
    CHECK_THAT(to_string(found.front()), Catch::Contains("13 layers"));
  }
  CHECK_THAT(to_string(cut_problems(model, shape, {1, 2, 13}).front()),
             Catch::Contains("stage 1 has no parameters"));
}

}  // namespace gv
