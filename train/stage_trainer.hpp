// Trains the stages of a model that one peer of a pipeline carries, one micro-batch at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "train/data_set.hpp"
#include "train/learner/stage_learner.hpp"
#include "train/model.hpp"
#include "train/spec.hpp"

namespace gv {

/// Trains the layers of each stage as Trainer trains a whole model.
class StageTrainer final : public StageLearner {
 public:
  /// The first stage draws its samples from `shard`. The spec and its cut must be sound.
  StageTrainer(StagesSpec spec, std::shared_ptr<const DataSet> shard);
  StageTrainer(StageTrainer&&) noexcept;
  ~StageTrainer() override;

  std::size_t stages() const override;
  const Layout& layout(std::size_t stage) const override;
  const Layout& whole_layout() const override;
  double work_share(std::size_t stage) const override;
  BoundarySize boundary(std::size_t stage) const override;
  std::uint64_t step() const override;
  double learning_rate() const override;
  void take_up(std::size_t stage) override;
  void release(std::size_t stage) override;
  bool carries(std::size_t stage) const override;
  std::span<const float> parameters(std::size_t stage) const override;
  std::size_t state_size(std::size_t stage) const override;
  void copy_state(std::size_t stage, std::span<float> out) const override;
  void adopt_state(std::size_t stage, std::span<const float> state) override;
  OptimizerState optimizer_state(std::size_t stage) const override;
  std::string restore(std::size_t stage, std::span<const float> parameters,
                      const OptimizerState& state) override;
  void move_to(std::uint64_t step) override;
  Score forward(std::size_t stage, std::uint32_t number, std::size_t draw, std::uint32_t version,
                std::span<const float> in, std::span<float> out) override;
  void backward(std::size_t stage, std::uint32_t number, std::span<const float> d_out,
                std::span<float> d_in, std::span<float> gradient) override;
  void backward_input(std::size_t stage, std::uint32_t number, std::span<const float> d_out,
                      std::span<float> d_in) override;
  void backward_weight(std::size_t stage, std::uint32_t number, std::span<float> gradient) override;
  void update(std::size_t stage, std::span<const float> sum, std::size_t micro_batches) override;
  void add(std::size_t stage, std::span<const float> force, float scale) override;
  void set(std::size_t stage, std::span<const float> values) override;
  void end_run(std::size_t drawn) override;
  void abandon_run() override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// The tensors of each stage of a sound cut, as StageTrainer::layout() has them.
std::vector<Layout> stage_layouts(const ModelSpec& model, SampleShape input,
                                  const std::vector<std::size_t>& ends);

/// The work of a layer for one sample, estimated from its shapes.
struct LayerWork {
  /// Multiplications and additions of a forward pass; a backward pass takes twice as many.
  double operations = 0;
  std::size_t parameters = 0;
  std::size_t outputs = 0;      ///< Floats passed to the next layer and kept for backward.
  bool may_begin_stage = true;  ///< It has parameters, and shares none with layers before it.
};
std::vector<LayerWork> layer_work(const ModelSpec& model, SampleShape input);

/// Everything wrong with a cut of this model, for people; places are "pipeline.ends".
Problems cut_problems(const ModelSpec& model, SampleShape input,
                      const std::vector<std::size_t>& ends);

}  // namespace gv
