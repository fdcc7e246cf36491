// One model: a stack of layers over a flat parameter vector that the caller owns.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

#include "consensus/base/problems.hpp"
#include "consensus/base/rng.hpp"
#include "train/batch.hpp"
#include "train/layout.hpp"
#include "train/spec.hpp"

namespace gv {

/// Sums over the samples of one or more batches.
struct Score {
  double loss = 0;          ///< Sum of the per-sample losses.
  std::size_t correct = 0;  ///< Samples whose largest output is their label.
  std::size_t samples = 0;

  double mean_loss() const { return samples ? loss / static_cast<double>(samples) : 0; }
  double accuracy() const {
    return samples ? static_cast<double>(correct) / static_cast<double>(samples) : 0;
  }
};

/// What a model's outputs (batch, outputs) are worth. `d_outputs` (same shape, may be empty)
/// becomes the gradient of the mean loss over the batch.
Score score_outputs(LossKind loss, std::span<const float> outputs, const Batch& batch,
                    std::span<float> d_outputs);

/// Everything wrong with a spec for inputs of this shape (places are "layers[3]"); empty if sound.
Problems problems(const ModelSpec& spec, SampleShape input);

/// A network, compiled for the sizes of the batches it is given. Holds activations and scratch,
/// never parameters. Not thread-safe: one thread at a time. Movable.
class Model {
 public:
  /// `spec` must have no problems. A network for `batch` samples is made at once.
  Model(const ModelSpec& spec, SampleShape input, std::size_t batch);
  Model(Model&&) noexcept;
  Model& operator=(Model&&) noexcept;
  ~Model();

  const Layout& layout() const;
  std::size_t outputs() const;

  /// Fills `parameters` (layout().size() floats) with He-uniform weights and zero biases (gains
  /// one): a pure function of the layout and `rng`.
  void initialise(std::span<float> parameters, Rng rng) const;

  /// Forward and backward on one batch in training mode. Overwrites `gradient` (same size as
  /// `parameters`) with the gradient of the mean loss over the batch; `ready`, if there is one,
  /// hears of its parts as they become final. Dropout draws from `rng`. Any size of batch will do,
  /// and the time is in proportion to it; of the networks compiled for different sizes the two used
  /// last are kept, and another size costs the time to compile one.
  Score gradient(std::span<const float> parameters, const Batch& batch, std::span<float> gradient,
                 Rng& rng, const ReadyRange& ready = {});

  /// Forward in inference mode: no dropout, no gradient. At most the constructor's `batch` samples;
  /// fewer take as long as that many.
  Score evaluate(std::span<const float> parameters, const Batch& batch);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace gv
