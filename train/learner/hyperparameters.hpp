// The settings in which the learners of a population differ.
#pragma once

namespace gv {

/// The settings in which the peers of a population differ and which change during training.
struct Hyperparameters {
  /// The peak of the learning-rate schedule. The schedule's shape does not change.
  double learning_rate = 0;
  double momentum = 0;

  friend bool operator==(const Hyperparameters&, const Hyperparameters&) = default;
};

}  // namespace gv
