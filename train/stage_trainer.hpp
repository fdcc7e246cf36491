// Trains the stages of a model that one peer of a pipeline carries, one micro-batch at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "train/data_set.hpp"
#include "train/model.hpp"
#include "train/trainer.hpp"

namespace gv {

/// A model cut into stages, and how each is trained.
struct StagesSpec {
  TrainerSpec trainer;            ///< `batch` is the size of a micro-batch.
  std::vector<std::size_t> ends;  ///< One past the last layer of each stage, rising.
  bool recomputes = false;        ///< Keep only the inputs and recompute the activations.
  bool keeps_versions = false;    ///< There is more than one update in a run.
  /// Samples of all peers in the mean of an update, for the linear scaling rule; 0: those of one
  /// micro-batch.
  std::size_t samples_an_update = 0;
};

/// The number of floats that a stage gets from the one before it for one micro-batch: activations
/// (batch, C, H, W), and behind them the labels or targets that the last stage needs. The gradient
/// that goes back is as long as the activations.
struct BoundarySize {
  std::size_t activations = 0;
  std::size_t truth = 0;

  std::size_t forward() const { return activations + truth; }
};

/// Owns the live parameters of some stages, and the activations of micro-batches under way. Not
/// thread-safe: while a job runs, the thread that runs it owns this. A micro-batch goes through a
/// stage by forward() and later either backward(), or backward_input() and backward_weight().
class StageTrainer {
 public:
  /// The first stage draws its samples from `shard`. The spec and its cut must be sound.
  StageTrainer(StagesSpec spec, std::shared_ptr<const DataSet> shard);
  StageTrainer(StageTrainer&&) noexcept;
  ~StageTrainer();

  std::size_t stages() const;
  /// The layout of one stage; tensors are named as in the whole model.
  const Layout& layout(std::size_t stage) const;
  const Layout& whole_layout() const;
  /// The stage's estimated fraction of the model's work.
  double work_share(std::size_t stage) const;
  /// The boundary before that stage; zero before the first and behind the last.
  BoundarySize boundary(std::size_t stage) const;

  /// Number of runs made, by which learning-rate schedules count; the same for all stages.
  std::uint64_t step() const;
  double learning_rate() const;

  /// Carries a stage from now on, in its state before the first step. Has no effect if it is
  /// carried already.
  void take_up(std::size_t stage);
  /// Stops carrying a stage and frees its memory.
  void release(std::size_t stage);
  bool carries(std::size_t stage) const;
  std::span<const float> parameters(std::size_t stage) const;

  /// The state of a carried stage: its parameters, the optimiser's vectors and its update count.
  std::size_t state_size(std::size_t stage) const;
  void copy_state(std::size_t stage, std::span<float> out) const;
  /// Takes over another replica's copy_state() of that stage.
  void adopt_state(std::size_t stage, std::span<const float> state);
  /// The state that a checkpoint of a stage holds besides its parameters. restore() is the inverse
  /// and takes up the stage; it returns why the state does not fit, or an empty string.
  OptimizerState optimizer_state(std::size_t stage) const;
  std::string restore(std::size_t stage, std::span<const float> parameters,
                      const OptimizerState& state);
  /// Sets step() for all carried stages.
  void move_to(std::uint64_t step);

  /// Takes micro-batch `number` of this run through a stage, with its parameters after `version`
  /// updates of the run. The first stage draws the peer's own batch number `draw` of the run and
  /// takes no `in`; `out` (boundary(stage + 1).forward() floats) is empty for the last, which
  /// computes the loss instead.
  Score forward(std::size_t stage, std::uint32_t number, std::size_t draw, std::uint32_t version,
                std::span<const float> in, std::span<float> out);

  /// Adds the gradient of the micro-batch's mean loss to `gradient` (layout(stage).size() floats)
  /// and writes the gradient of its inputs to `d_in` (empty for the first stage). `d_out` is empty
  /// for the last stage.
  void backward(std::size_t stage, std::uint32_t number, std::span<const float> d_out,
                std::span<float> d_in, std::span<float> gradient);
  void backward_input(std::size_t stage, std::uint32_t number, std::span<const float> d_out,
                      std::span<float> d_in);
  void backward_weight(std::size_t stage, std::uint32_t number, std::span<float> gradient);

  /// One optimiser step of a stage with `sum`, the gradients of `micro_batches` micro-batches added
  /// up. Versions that micro-batches under way went forward with are kept for them.
  void update(std::size_t stage, std::span<const float> sum, std::size_t micro_batches);
  /// x += scale * force, for the newest version.
  void add(std::size_t stage, std::span<const float> force, float scale);
  /// x = values, for the newest version.
  void set(std::size_t stage, std::span<const float> values);

  /// Ends the run, in which we drew `drawn` batches; the next run draws others.
  void end_run(std::size_t drawn);
  /// Gives the run up: forgets micro-batches under way and restores everything to the state in
  /// which the run began.
  void abandon_run();

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
