// Signals that arrive while a network computes change nothing: not the result, not the heap.
#include <sys/time.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <csignal>
#include <vector>

#include "train/layers/plan.hpp"
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

}  // namespace gv
