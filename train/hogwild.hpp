// Hogwild!: several workers step on one parameter vector at once, without locks (Niu 2011).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "train/trainer.hpp"

namespace gv {

/// `spec.threads` workers for steps of plain SGD. Each has a network, a gradient and a copy of the
/// parameters of its own and does, until none of the steps is left:
///
///   takes the number of the next step, which no other worker takes
///   g = gradient at its copy, on that step's batch
///   x_i -= lr (g_i + weight_decay x_i) (relaxed load and store; no store where that is nothing)
///   its copy = what it stored: x as others left it a moment ago, and its own part
///
/// Every access to x while workers run is atomic, so there is no data race. What another worker
/// adds to an element between our load and our store is lost: that is what Hogwild bears, the more
/// easily the sparser gradients are. Results depend on who was when where and do not repeat. With
/// one worker at a time they are those of SGD, bit for bit.
///
/// Memory: for each worker two vectors as long as the parameters, a network, two batches.
class Hogwild {
 public:
  Hogwild(const TrainerSpec& spec, std::shared_ptr<const DataSet> shard, RunTogether together);
  Hogwild(Hogwild&&) noexcept;
  ~Hogwild();

  /// Makes `count` steps, of which the first is number `step` and begins at `position` of the
  /// sampler's orders: batch, learning rate and dropout of each are those it has in Trainer. Sums
  /// the score; `position` becomes that after the last.
  Score run(std::span<float> parameters, const ScheduleSpec& schedule, std::uint64_t step,
            std::uint64_t& position, std::uint64_t count);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gv
