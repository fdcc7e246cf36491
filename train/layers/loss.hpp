// Losses over a batch of outputs, with their gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gv {

/// The loss of a batch.
struct LossSum {
  double loss = 0;          ///< Sum of the samples' losses.
  std::size_t correct = 0;  ///< Number of samples whose largest output is that of their label.
};

/// Computes softmax cross-entropy from logits `outputs` (batch, classes). The largest logit is
/// subtracted first. `d_outputs` (same shape, or empty) becomes the gradient of the mean loss over
/// the batch. Labels must be in [0, classes). T is float or double.
template <class T>
LossSum cross_entropy(std::span<const T> outputs, std::span<const std::int32_t> labels,
                      std::size_t classes, std::span<T> d_outputs);

/// The hinge loss for several classes (Crammer and Singer 2001): max(0, 1 + the largest other
/// output - the label's output). With a linear model and weight decay, the model is a linear
/// support vector machine. Descent moves the label's output up and the largest other output down
/// (the first of several equal ones). The subgradient is 0 where the margin is exactly 1. With one
/// class the loss is 0.
template <class T>
LossSum hinge_loss(std::span<const T> outputs, std::span<const std::int32_t> labels,
                   std::size_t classes, std::span<T> d_outputs);

/// Half the squared distance to `targets` (batch, width), summed over the outputs of a sample.
template <class T>
LossSum squared_loss(std::span<const T> outputs, std::span<const T> targets, std::size_t width,
                     std::span<T> d_outputs);

}  // namespace gv
