// Losses over a batch of outputs, with their gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gv {

/// The loss of a batch.
struct LossSum {
  double loss = 0;          ///< Sum of the samples' losses.
  std::size_t correct = 0;  ///< Number of samples whose largest output is their label.
};

/// Softmax cross-entropy from logits; the maximum is subtracted first. `outputs` is (batch,
/// classes). `d_outputs` (same shape, may be empty) becomes the gradient of the mean over the
/// batch. Labels must be in [0, classes). T is float or double.
template <class T>
LossSum cross_entropy(std::span<const T> outputs, std::span<const std::int32_t> labels,
                      std::size_t classes, std::span<T> d_outputs);

/// The hinge loss of several classes (Crammer and Singer 2001): max(0, 1 + the largest other output
/// - the label's output). With a linear model and weight decay it is the linear support vector
/// machine. The subgradient moves the label's output up and the largest other one down (the first
/// of several equal ones); it is 0 where the margin is exactly 1. With one class there is no loss.
template <class T>
LossSum hinge_loss(std::span<const T> outputs, std::span<const std::int32_t> labels,
                   std::size_t classes, std::span<T> d_outputs);

/// Half the squared distance to `targets` (batch, width), summed over a sample's outputs.
template <class T>
LossSum squared_loss(std::span<const T> outputs, std::span<const T> targets, std::size_t width,
                     std::span<T> d_outputs);

}  // namespace gv
