// Trains one replica: the live parameters, the optimiser, the data, and the tasks run on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "train/data_set.hpp"
#include "train/hogwild.hpp"
#include "train/learner/learner.hpp"
#include "train/spec.hpp"

namespace gv {

/// The built-in learner. Where the functions of the port say nothing of its data: a gradient takes
/// 1 to batch_max samples of the shard, and the first one of a size that is not one of the last two
/// costs some milliseconds more.
class Trainer final : public Learner, public Tunable {
 public:
  /// This replica trains on `shard`, which is shared and immutable.
  Trainer(TrainerSpec spec, std::shared_ptr<const DataSet> shard);
  Trainer(Trainer&&) noexcept;
  ~Trainer() override;

  /// From now on run_steps() without `direct` makes its steps in `spec.threads` workers at once,
  /// which `together` runs (see Hogwild). Only for plain SGD.
  void step_together(RunTogether together);

  /// From now on it can be a member of a population, and is validated on these samples, at least
  /// one.
  void hold_out(std::shared_ptr<const DataSet> samples);

  const Layout& layout() const override;
  std::vector<DenseWeights> dense_weights() const override;
  std::size_t samples() const override;
  std::span<const float> parameters() const override;
  std::span<float> live_parameters() override;
  std::uint64_t step() const override;
  double learning_rate() const override;

  Score run_steps(std::uint64_t count, const Direct& direct = {}) override;
  Score gradient(std::size_t samples, std::span<float> out, const ReadyRange& ready = {},
                 std::span<const std::size_t> factored = {}) override;
  void update(std::span<const float> mean, std::size_t samples = 0) override;
  Score local_steps(std::uint64_t steps, std::size_t samples, std::span<float> out) override;
  void end_local_steps(std::span<const float> parameters, std::uint64_t steps) override;

  void go_on_at(std::uint64_t step) override;
  /// The sampler goes on where `step` batches of the usual size would have left it.
  void adopt(std::span<const float> parameters, std::uint64_t step) override;
  void adopt_model(std::span<const float> parameters, std::uint64_t step) override;
  void adopt_state(std::span<const float> parameters, std::span<const float> optimizer,
                   std::uint64_t step, std::uint64_t updates) override;
  std::size_t optimizer_size() const override;
  void copy_optimizer(std::span<float> out) const override;
  std::uint64_t updates() const override;
  OptimizerState optimizer_state() const override;
  /// Leaves the hyper-parameters as they are.
  std::string restore(std::span<const float> parameters, const OptimizerState& state) override;

  /// Null before hold_out().
  Tunable* tunable() override;
  /// Those of schedule and optimiser, at first the spec's.
  Hyperparameters hyperparameters() const override;
  void set_hyperparameters(const Hyperparameters& hyperparameters) override;
  double validation_loss() override;

  void set_update_factor(double factor) override;
  /// Gathers the batch of the next step, if it is as large as the last. Changes no result.
  void prefetch() override;

 private:
  Score take_steps(std::uint64_t count, std::size_t samples, const Direct& direct = {});

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gv
