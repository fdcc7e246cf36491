// Hogwild!: several workers update one parameter vector at the same time, without locks (Niu 2011).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "train/built_in_learner.hpp"
#include "train/data/sampler.hpp"
#include "train/model.hpp"

namespace gv {

/// Returns the learning rate of a step.
using RateOfStep = std::function<double(std::uint64_t step)>;

/// `spec.threads` workers for steps of plain SGD. Each has its own network, gradient and copy of
/// the parameters, and repeats this until no steps are left:
///
///   takes the number of the next step, which no other worker takes
///   g = gradient at its copy, on that step's batch
///   x_i -= lr (g_i + weight_decay x_i), by relaxed load and store (no store if the change is zero)
///   its copy = the values it stored, which contain the other workers' changes until then
///
/// Every access to x while workers run is atomic, so there is no data race. If another worker
/// updates an element between our load and our store, its update is lost. Hogwild tolerates such
/// losses, and they are rarer with sparser gradients. Results depend on timing and are not
/// reproducible. With a single worker they equal those of SGD, bit for bit.
///
/// Memory: for each worker two vectors as long as the parameters, a network, and two batches.
class Hogwild {
 public:
  Hogwild(const TrainerSpec& spec, std::shared_ptr<const DataSet> shard, RunTogether together);

  /// Makes `count` steps, starting at step number `step` and sampler position `position`. Each step
  /// has the same batch and dropout as in the trainer. `decay` is the weight decay, which may
  /// change from run to run. Returns the summed score and advances `position` past the last step.
  Score run(std::span<float> parameters, const RateOfStep& rate, double decay, std::uint64_t step,
            std::uint64_t& position, std::uint64_t count);

 private:
  struct Worker {
    Worker(const TrainerSpec& spec, const std::shared_ptr<const DataSet>& shard);

    Model model;
    Sampler sampler;
    std::vector<float> parameters;
    std::vector<float> gradient;
    Score score;
  };

  void make_step(Worker& worker, std::span<float> x, double learning_rate, double decay,
                 std::uint64_t number, std::uint64_t position) const;

  TrainerSpec spec_;
  RunTogether together_;
  std::vector<Worker> workers_;
};

}  // namespace gv
