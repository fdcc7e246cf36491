// A model: a stack of layers over a flat parameter vector that the caller owns.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/problems.hpp"
#include "base/rng.hpp"
#include "train/batch.hpp"
#include "train/layers/network.hpp"
#include "train/layers/plan.hpp"
#include "train/learner/layout.hpp"
#include "train/learner/score.hpp"
#include "train/spec.hpp"

namespace gv {

/// The exponential of the mean loss: the number of equally likely classes with the same
/// uncertainty.
double perplexity(const Score& score);

/// The mean loss in bits. For text, this is the number of bits per byte to which the model could
/// compress it.
double bits_per_prediction(const Score& score);

/// Scores a model's outputs (batch, outputs). Overwrites `d_outputs` (same shape, or empty) with
/// the gradient of the mean loss over all predictions of the batch.
Score score_outputs(LossKind loss, std::span<const float> outputs, const Batch& batch,
                    std::span<float> d_outputs);

/// Lists everything wrong with a spec for inputs of this shape and `predictions` labels for each
/// sample. Problems name their places as in "layers[3]".
Problems problems(const ModelSpec& spec, SampleShape input, std::size_t predictions = 1);

/// Keeps a network for each of the last two batch sizes. Holds activations and scratch space, never
/// parameters. Not thread-safe. Movable.
class Model {
 public:
  /// `spec` must have no problems. Makes a network for batches of `batch` samples at once.
  Model(const ModelSpec& spec, SampleShape input, std::size_t batch);

  const Layout& layout() const { return plan_.layout; }
  std::size_t outputs() const { return plan_.outputs; }
  /// The ranges of batch norms' running statistics in the parameters; see statistics_of().
  std::vector<Range> statistics() const { return statistics_of(plan_); }
  /// The weights of dense layers that are not inside another layer and do not share weights,
  /// ascending.
  std::vector<DenseWeights> dense_weights() const;

  /// Fills `parameters` (layout().size() floats) with He-uniform weights, zero biases, gains of one
  /// and cluster centres with a deviation of 0.1. The result depends only on the model and `rng`.
  /// If the spec's initial_deviation s is above 0, weights are normal with deviation s. If there
  /// are R residual layers, the weights at the end of each have deviation s / sqrt(R). So the size
  /// of the layers' sum does not depend on R (Radford 2019). An embedding's tables are always
  /// normal.
  void initialise(std::span<float> parameters, Rng rng) const;

  /// Forward and backward pass on one batch in training mode. Overwrites `gradient` (same size as
  /// `parameters`) with the gradient of the mean loss over all predictions of the batch. Calls
  /// `ready`, if given, with parts of the gradient as they become final. Dropout draws from `rng`.
  /// The batch may have any size, and the time is proportional to its size. Networks for the last
  /// two sizes are kept; another size costs the time to make a network. `factored` lists offsets of
  /// dense_weights(), ascending. For these weights, `gradient` gets the factors instead, see
  /// Network::give_factors().
  Score gradient(std::span<const float> parameters, const Batch& batch, std::span<float> gradient,
                 Rng& rng, const ReadyRange& ready = {},
                 std::span<const std::size_t> factored = {});

  /// Forward pass in inference mode: no dropout, no gradient. Takes at most the constructor's
  /// `batch` samples; fewer take the same time. Returns the outputs, (samples, outputs), which are
  /// valid until the next call.
  std::span<const float> predict(std::span<const float> parameters, const Batch& batch);

  /// The score of predict()'s outputs.
  Score evaluate(std::span<const float> parameters, const Batch& batch);

 private:
  struct Sized {
    std::size_t batch = 0;
    std::unique_ptr<Network<float>> network;
  };

  /// The network for batches of exactly this size.
  Network<float>& network_for(std::size_t size);
  void check_shape(const Batch& given) const;

  Problems unsound_;
  LossKind loss_;
  double initial_deviation_;
  ModelPlan plan_;
  std::size_t batch_;
  std::vector<Sized> networks_;  ///< The most recently used network comes first.
  std::vector<float> padded_;
  std::vector<float> d_outputs_;
};

}  // namespace gv
