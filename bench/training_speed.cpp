// Measures how many samples per second one peer's trainer handles on one thread: mlp, lenet or cnn
// on random images, or a transformer on random bytes.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/rng.hpp"
#include "train/built_in_learner.hpp"

namespace {

using Clock = std::chrono::steady_clock;

gv::ModelSpec model_of(const std::string& name) {
  if (name == "lenet") return gv::lenet(10);
  if (name == "cnn") return gv::cnn(10);
  if (name == "transformer") return gv::transformer({}, 256);
  return gv::mlp({256, 128}, 10);
}

std::shared_ptr<const gv::DataSet> random_images(std::size_t count) {
  auto data = std::make_shared<gv::DataSet>();
  data->shape = {1, 28, 28};
  data->classes = 10;
  gv::Rng rng(1);
  for (std::size_t i = 0; i < count * 784; ++i) {
    data->bytes.push_back(static_cast<std::uint8_t>(rng.below(256)));
  }
  for (std::size_t i = 0; i < count; ++i) data->labels.push_back(static_cast<int>(rng.below(10)));
  return data;
}

/// Windows of 128 random bytes.
std::shared_ptr<const gv::DataSet> random_text(std::size_t count) {
  auto data = std::make_shared<gv::DataSet>();
  constexpr std::size_t context = 128;
  data->shape = {context, 1, 1};
  data->classes = 256;
  data->predictions = context;
  data->scale = 255;
  gv::Rng rng(1);
  for (std::size_t i = 0; i < count * context; ++i) {
    data->bytes.push_back(static_cast<std::uint8_t>(rng.below(256)));
    data->labels.push_back(static_cast<int>(rng.below(256)));
  }
  return data;
}

}  // namespace

/// Arguments: MODEL [SECONDS] [bf16]. Prints "samples_per_second MEDIAN LOW HIGH", where LOW and
/// HIGH are the quartiles, over blocks of about a tenth of a second.
int main(int argc, char** argv) {
  const std::string name = argc > 1 ? argv[1] : "mlp";
  const double seconds = argc > 2 ? std::atof(argv[2]) : 5;
  const bool is_text = name == "transformer";
  const std::size_t batch = is_text ? 16 : 64;
  const bool rounds = argc > 3 && std::string(argv[3]) == "bf16";
  gv::TrainerSpec spec{.model = model_of(name),
                       .optimizer = {.kind = gv::OptimizerKind::nesterov},
                       .schedule = {.learning_rate = 0.001},
                       .batch = batch,
                       .steps = 1'000'000'000};
  spec.model.precision = rounds ? gv::Precision::bf16 : gv::Precision::float32;
  const auto learner =
      gv::built_in_learner(spec, is_text ? random_text(1600) : random_images(6400));
  learner->run_steps(3);
  const auto trial = Clock::now();
  learner->run_steps(5);
  const double step = std::chrono::duration<double>(Clock::now() - trial).count() / 5;
  const auto steps = static_cast<std::uint64_t>(std::max(1.0, 0.1 / step));
  std::vector<double> rates;
  const auto begin = Clock::now();
  while (std::chrono::duration<double>(Clock::now() - begin).count() < seconds) {
    const auto from = Clock::now();
    learner->run_steps(steps);
    const double took = std::chrono::duration<double>(Clock::now() - from).count();
    rates.push_back(static_cast<double>(steps * batch) / took);
  }
  std::sort(rates.begin(), rates.end());
  std::printf("samples_per_second %.0f %.0f %.0f\n", rates[rates.size() / 2],
              rates[rates.size() / 4], rates[rates.size() * 3 / 4]);
  return 0;
}
