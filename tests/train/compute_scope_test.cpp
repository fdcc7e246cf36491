// While a network computes, signals change nothing, and subnormal numbers count as zero.
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <catch2/catch.hpp>
#include <cmath>
#include <csignal>
#include <vector>

#include "train/layers/plan.hpp"
#include "train/layers/subnormals_flushed.hpp"
#include "train/model.hpp"

namespace gv {
namespace {

std::atomic<int> handled = 0;

/// Sends a signal every 50 microseconds during its lifetime.
class Storm {
 public:
  Storm() {
    struct sigaction action {};
    action.sa_handler = [](int) { ++handled; };
    action.sa_flags = SA_RESTART;
    ::sigaction(SIGALRM, &action, &before_);
    const itimerval often{{0, 50}, {0, 50}};
    ::setitimer(ITIMER_REAL, &often, nullptr);
  }
  ~Storm() {
    const itimerval off{};
    ::setitimer(ITIMER_REAL, &off, nullptr);
    ::sigaction(SIGALRM, &before_, nullptr);
  }
  Storm(const Storm&) = delete;
  Storm& operator=(const Storm&) = delete;

 private:
  struct sigaction before_ {};
};

/// The gradient after many passes, followed by the loss of each pass.
std::vector<float> computed(Model& model, const std::vector<float>& parameters,
                            const Batch& batch) {
  std::vector<float> gradient(parameters.size());
  std::vector<float> losses;
  for (std::uint64_t pass = 0; pass < 100; ++pass) {
    Rng rng(pass);
    losses.push_back(
        static_cast<float>(model.gradient(parameters, batch, gradient, rng).mean_loss()));
    losses.push_back(static_cast<float>(model.evaluate(parameters, batch).mean_loss()));
  }
  gradient.insert(gradient.end(), losses.begin(), losses.end());
  return gradient;
}

}  // namespace

TEST_CASE("a storm of signals changes no bit of what a network computes") {
  constexpr std::size_t batch_size = 256;
  const auto [spec, shape] = GENERATE(std::pair(mlp({256, 128}, 10), SampleShape{784, 1, 1}),
                                      std::pair(lenet(10), SampleShape{1, 28, 28}));
  Model model(spec, shape, batch_size);
  Rng rng(3);
  std::vector<float> parameters(model.layout().size());
  model.initialise(parameters, rng);
  std::vector<float> inputs(batch_size * elements(shape));
  for (float& value : inputs) value = static_cast<float>(rng.normal());
  std::vector<std::int32_t> labels(batch_size);
  for (auto& label : labels) label = static_cast<std::int32_t>(rng.below(10));
  const Batch batch{.inputs = inputs, .labels = labels, .targets = {}, .size = batch_size};
  const std::vector<float> quiet = computed(model, parameters, batch);
  const int before = handled;
  std::vector<float> stormy;
  {
    const Storm storm;
    stormy = computed(model, parameters, batch);
  }
  CHECK(handled > before);
  CHECK(stormy == quiet);
}

#ifdef __SSE__
TEST_CASE("a model that is sure of its answers computes no subnormal numbers") {
  constexpr std::size_t batch_size = 4;
  Model model(mlp({8}, 10), {16, 1, 1}, batch_size);
  Rng rng(5);
  std::vector<float> parameters(model.layout().size());
  model.initialise(parameters, rng);
  std::vector<float> inputs(batch_size * 16);
  for (float& value : inputs) value = static_cast<float>(rng.normal());
  const std::vector<std::int32_t> labels(batch_size, 3);
  const Batch batch{.inputs = inputs, .labels = labels, .targets = {}, .size = batch_size};
  std::vector<float> gradient(parameters.size());
  int smallest_probabilities = 0;
  for (int growth = 0; growth < 60; ++growth) {
    for (float& value : parameters) value *= 1.05F;
    const std::span<const float> logits = model.predict(parameters, batch);
    for (std::size_t row = 0; row < batch_size; ++row) {
      const std::span<const float> own = logits.subspan(row * 10, 10);
      const float largest = *std::ranges::max_element(own);
      // A logit that is 87 below the largest has a probability of 1.6e-38. Divided by the batch, it
      // is subnormal.
      smallest_probabilities += static_cast<int>(
          std::ranges::count_if(own, [&](float logit) { return logit - largest < -87; }));
    }
    model.gradient(parameters, batch, gradient, rng);
    CHECK(std::ranges::none_of(gradient,
                               [](float value) { return std::fpclassify(value) == FP_SUBNORMAL; }));
  }
  CHECK(smallest_probabilities > 10);
}
#endif

TEST_CASE("subnormal numbers are flushed within a scope only") {
  volatile float small = 1e-30F;
  const auto product = [&] { return small * 1e-10F; };
  REQUIRE(std::fpclassify(product()) == FP_SUBNORMAL);
#ifdef __SSE__
  {
    const SubnormalsFlushed flushed;
    CHECK(product() == 0);
    volatile float subnormal = 1e-40F;
    CHECK(subnormal * 1e10F == 0);
  }
#endif
  CHECK(std::fpclassify(product()) == FP_SUBNORMAL);
}

}  // namespace gv
