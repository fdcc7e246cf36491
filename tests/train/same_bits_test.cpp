// Values that every peer in lockstep computes for itself have the same bits on different machines:
// on x86 with and without fused multiplication, and on arm64. The fingerprints come from x86.
#include <array>
#include <catch2/catch.hpp>
#include <cstdint>
#include <vector>

#include "base/fingerprint.hpp"
#include "base/rng.hpp"
#include "train/model.hpp"
#include "train/optimizer.hpp"
#include "train/schedule.hpp"

namespace gv {
namespace {

/// A small transformer of 4,600 parameters, with a tensor for every initial distribution.
Model small_transformer() {
  const TransformerSpec spec{.blocks = 1, .width = 16, .heads = 2, .tied = false};
  ModelSpec model = transformer(spec, 40);
  model.initial_deviation = 0.02;
  return {model, {8, 1, 1}, 1};
}

struct Recorded {
  OptimizerKind kind;
  std::uint64_t fingerprint;
};

constexpr std::array recorded = {Recorded{OptimizerKind::sgd, 0x242fbe61a9d97d24},
                                 Recorded{OptimizerKind::momentum, 0x75ffdc8f01856da3},
                                 Recorded{OptimizerKind::nesterov, 0xbd03d701242ff697},
                                 Recorded{OptimizerKind::adagrad, 0x79d18d171d9ab63e},
                                 Recorded{OptimizerKind::rmsprop, 0x7532524faa7c8f11},
                                 Recorded{OptimizerKind::adam, 0x82d4c9a3f343c99e},
                                 Recorded{OptimizerKind::adamw, 0x7fe2b3a6c4f10618},
                                 Recorded{OptimizerKind::lars, 0xb702f6a315cf0467},
                                 Recorded{OptimizerKind::lamb, 0x9cc4be797231635b}};

}  // namespace

TEST_CASE("a seed gives the same model on every machine", "[unit]") {
  const Model model = small_transformer();
  std::vector<float> parameters(model.layout().size());
  model.initialise(parameters, Rng(1));
  CHECK(fingerprint(parameters) == 0x30bf0407c54f9647ULL);
}

TEST_CASE("equal gradients make equal steps on every machine", "[unit]") {
  constexpr std::uint64_t steps = 300;
  const Model model = small_transformer();
  const ScheduleSpec schedule{
      .kind = ScheduleKind::cosine, .learning_rate = 0.003, .warmup_steps = 20, .step_at = {}};
  for (const Recorded& row : recorded) {
    Optimizer optimizer({.kind = row.kind, .weight_decay = 0.01}, model.layout());
    std::vector<float> parameters(model.layout().size());
    model.initialise(parameters, Rng(1));
    std::vector<float> gradient(parameters.size());
    Rng rng(2);
    for (std::uint64_t step = 0; step < steps; ++step) {
      for (float& value : gradient) value = static_cast<float>(rng.uniform() - 0.5);
      optimizer.step(parameters, gradient, learning_rate(schedule, 1, step, steps));
    }
    INFO("optimiser number " << static_cast<int>(row.kind));
    CHECK(fingerprint(parameters) == row.fingerprint);
  }
}

}  // namespace gv
