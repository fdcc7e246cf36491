// Plain descriptions of a training run. A config fills them in, and factories turn them into
// objects.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "train/learner/hyperparameters.hpp"

namespace gv {

/// Shape of one sample: channels, height, width. Flat inputs are {features, 1, 1}. A sequence is
/// {positions, 1, width}, so that its rows are contiguous; a sequence of ids is {positions, 1, 1}.
using SampleShape = std::array<std::size_t, 3>;

enum class LayerKind {
  dense,
  conv2d,
  max_pool,
  avg_pool,
  flatten,
  relu,
  tanh,
  gelu,
  dropout,
  layer_norm,
  group_norm,
  batch_norm,
  embedding,
  attention,
  lstm,
  residual,
  stack,
  concat,
  clusters,
  kernel_features
};

/// The source of a batch norm's running statistics: this peer's batches only, or the mean over all
/// peers whose models are mixed.
enum class Statistics : std::uint8_t { local, pooled };

/// How a convolution is computed; see layers/convolution_method.
enum class ConvolutionMethod : std::uint8_t { automatic, direct, winograd, im2col, fft };

/// The type to which dense layers and convolutions round the factors of their products. Everything
/// else is always float32, including products, sums, parameters and gradients.
enum class Precision : std::uint8_t { float32, bf16 };

/// The values that weight matrices use in products: the parameters themselves, or each rounded to
/// one of -a, 0 and a (see layers/ternary). The trained parameters are always float32.
enum class WeightValues : std::uint8_t { floats, ternary };

/// How the members of a group share a layer, where the layer allows it. `model` divides outputs,
/// heads, channels or tokens; `rows` divides the rows of images.
enum class LayerSplit : std::uint8_t { automatic, none, model, rows };

/// One layer of an explicit list. Fields that a kind does not use keep their defaults.
struct LayerSpec {
  LayerKind kind = LayerKind::relu;
  /// dense: outputs. conv2d: output channels. embedding, lstm: width. clusters: centres.
  /// kernel_features: outputs, an even number.
  std::size_t units = 0;
  std::size_t kernel = 0;  ///< conv2d, pools: side of the square window.
  /// conv2d, pools: step between windows; 0 means 1 for conv2d and `kernel` for pools.
  std::size_t stride = 0;
  /// conv2d: zeros on each side. max_pool: positions on each side that never count as the largest.
  std::size_t padding = 0;
  /// conv2d: method of computation.
  ConvolutionMethod convolution = ConvolutionMethod::automatic;
  std::size_t groups = 1;  ///< group_norm: number of groups.
  double rate = 0.5;       ///< dropout: probability of dropping an activation.
  double gamma = 1;  ///< kernel_features: the kernel of samples x and z is exp(-gamma |x - z|^2).
  /// dense, layer_norm: apply the same layer to every row of {positions, 1, width}.
  bool per_position = false;
  /// dense: use the embedding's token table as weights, so that only the biases are the layer's
  /// own.
  bool tied = false;
  Statistics statistics = Statistics::local;  ///< batch_norm: source of the running statistics.
  std::size_t vocabulary = 0;                 ///< embedding: number of ids.
  std::size_t heads = 0;  ///< attention: number of heads, a divisor of the width.
  /// dense, conv2d, pools, embedding, attention: how a group shares the layer.
  LayerSplit split = LayerSplit::automatic;
  /// residual: y = x + layers(x). stack: y = layers(x). concat: each layer takes x, and their
  /// outputs are joined along the channels.
  std::vector<LayerSpec> layers;
  /// residual: y = shortcut(x) + layers(x), needed where the layers change the shape.
  std::vector<LayerSpec> shortcut;

  friend bool operator==(const LayerSpec&, const LayerSpec&) = default;
};

/// True if the predicate holds for the layer or for a layer inside it.
template <class Predicate>
bool any_layer(const LayerSpec& layer, const Predicate& holds) {
  const auto inside = [&](const LayerSpec& inner) { return any_layer(inner, holds); };
  return holds(layer) || std::ranges::any_of(layer.layers, inside) ||
         std::ranges::any_of(layer.shortcut, inside);
}

/// reconstruction: half the squared distance between outputs and inputs; labels and targets are
/// ignored.
enum class LossKind { cross_entropy, hinge, squared, reconstruction };

/// True for losses that compare outputs with labels.
constexpr bool takes_labels(LossKind loss) {
  return loss == LossKind::cross_entropy || loss == LossKind::hinge;
}

/// The layers of a model: those of a named model, such as "mlp" or "transformer", or an explicit
/// list.
struct ModelSpec {
  std::vector<LayerSpec> layers;
  LossKind loss = LossKind::cross_entropy;
  Precision precision = Precision::float32;
  WeightValues weights = WeightValues::floats;
  /// Standard deviation of normal initial weights; 0 means He-uniform weights. See
  /// Model::initialise().
  double initial_deviation = 0;
};

/// mlp: dense+relu for each hidden width, then dense to `outputs`.
ModelSpec mlp(const std::vector<std::size_t>& hidden, std::size_t outputs);
/// LeNet-5: conv 6@5x5 pad 2, relu, max-pool 2, conv 16@5x5, relu, max-pool 2, dense 120, 84,
/// outputs.
ModelSpec lenet(std::size_t outputs);
/// conv 32@3x3 pad 1, relu, conv 64@3x3 pad 1, relu, max-pool 2, dense 128, relu, dense outputs.
ModelSpec cnn(std::size_t outputs);
/// One dense layer.
ModelSpec linear(std::size_t outputs);

struct TransformerSpec {
  std::size_t blocks = 4;
  std::size_t width = 128;
  std::size_t heads = 4;
  bool tied = true;  ///< True if the output layer uses the embedding's table.

  friend bool operator==(const TransformerSpec&, const TransformerSpec&) = default;
};
/// GPT-2's stack (Radford 2019) over ids below `vocabulary`: an embedding; in each block x +
/// attention(norm(x)), then x + dense(gelu(dense(norm(x)))) with an inner width four times as
/// large; then a norm; then, at every position, a dense layer with `vocabulary` outputs.
ModelSpec transformer(const TransformerSpec& spec, std::size_t vocabulary);

enum class OptimizerKind { sgd, momentum, nesterov, adagrad, rmsprop, adam, adamw, lars, lamb };

struct OptimizerSpec {
  OptimizerKind kind = OptimizerKind::nesterov;
  double momentum = 0.9;  ///< Used by momentum, nesterov and lars.
  double decay = 0.9;     ///< rmsprop: decay of the mean square.
  double beta1 = 0.9;     ///< Used by adam, adamw and lamb.
  double beta2 = 0.999;   ///< Used by adam, adamw and lamb.
  double epsilon = 1e-8;  ///< Used by all but sgd, momentum and nesterov.
  /// lars: length of a tensor's step relative to the tensor's norm, at rate 1.
  double trust = 0.001;
  double weight_decay = 0.0;  ///< Weight decay, added to the gradient except for adamw and lamb.

  friend bool operator==(const OptimizerSpec&, const OptimizerSpec&) = default;
};

enum class ScheduleKind { constant, step, cosine, growing_batch };

struct ScheduleSpec {
  ScheduleKind kind = ScheduleKind::constant;
  double learning_rate = 0.02;   ///< The peak: the rate at the reference batch, after warm-up.
  std::size_t warmup_steps = 0;  ///< Number of steps in which the rate rises linearly to the peak.
  /// step: multiply the rate by `step_factor` at each of these steps. growing_batch: see
  /// `batch_factor`.
  std::vector<std::size_t> step_at;
  double step_factor = 0.1;
  /// growing_batch: multiply the batch by this at the first `batch_growths` steps of `step_at`, and
  /// divide the rate by it at the other steps.
  std::size_t batch_factor = 2;
  std::size_t batch_growths = 3;
  double final_fraction = 0.0;  ///< cosine: rate at the last step as a fraction of the peak.
  /// Linear scaling rule: the peak is multiplied by batch / reference_batch. 0 means no scaling.
  std::size_t reference_batch = 0;

  friend bool operator==(const ScheduleSpec&, const ScheduleSpec&) = default;
};

enum class PartitionKind { iid, dirichlet, by_label, shared, leased, clusters };

struct PartitionSpec {
  PartitionKind kind = PartitionKind::iid;
  double alpha = 0.5;  ///< dirichlet: concentration; a small value makes shards differ strongly.
  /// by_label: number of pieces that each peer gets. The samples are sorted by label and cut into
  /// equal pieces, enough for all peers, so a piece may hold several labels.
  std::size_t labels_per_peer = 2;

  friend bool operator==(const PartitionSpec&, const PartitionSpec&) = default;
};

/// Everything that determines one replica's training.
struct TrainerSpec {
  ModelSpec model;
  OptimizerSpec optimizer;
  ScheduleSpec schedule;
  std::size_t batch = 64;  ///< Samples in a step of run_steps(). Schedules scale with this number.
  std::size_t batch_max = 0;  ///< The largest number of samples for gradient(); 0 means `batch`.
  /// Number of workers in run_steps(). Several workers share the parameters without locks.
  std::size_t threads = 1;
  std::uint64_t steps = 0;  ///< The total number of steps. Schedules end here.
  /// True if the whole swarm shares one budget. The schedule then follows the swarm's progress, and
  /// `steps` is only the schedule's nominal length.
  bool follows_swarm = false;
  /// True if all peers share one order of samples, and read_from() sets where this peer reads.
  bool is_leased = false;
  /// In a population: the hyperparameters that vary. Their learning rate and momentum are not used
  /// here.
  Hyperparameters varied;
  std::uint64_t seed = 1;  ///< Seed of the run. All peers use it for the initial model.
  /// This replica's number. It determines the replica's order of samples and its dropout.
  std::uint64_t peer = 0;

  /// The number that determines the order of samples; nullopt if all peers have the same order.
  std::optional<std::uint64_t> sampling_peer() const {
    return is_leased ? std::nullopt : std::optional(peer);
  }
};

/// A model cut into stages, and how each is trained.
struct StagesSpec {
  TrainerSpec trainer;  ///< The training of each stage. `batch` is the size of a micro-batch.
  std::vector<std::size_t> ends;  ///< One past the last layer of each stage, ascending.
  /// True if only the inputs of each stage are kept, and other activations are recomputed.
  bool recomputes = false;
  bool keeps_versions = false;  ///< True if a pipeline run has more than one update.
  /// Number of samples in an update's mean, over all peers, for the linear scaling rule. 0 means
  /// the samples of one micro-batch.
  std::size_t samples_an_update = 0;
  /// Number of slices in a stage that groups can share; 0 if there are no groups.
  std::size_t slices = 0;
};

}  // namespace gv
