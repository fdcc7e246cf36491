// The settings in which the learners of a population differ.
#pragma once

namespace gv {

/// The settings in which the peers of a population differ and which change during training.
struct Hyperparameters {
  /// The peak of the learning-rate schedule. The schedule's shape does not change.
  double learning_rate = 0;
  double momentum = 0;
  /// Each of these is 0 if the peers do not differ in it. A batch and a period are whole numbers.
  double weight_decay = 0;
  double batch = 0;
  double alpha = 0;   ///< Elastic coefficient of gossip, which the learner only keeps.
  double period = 0;  ///< Steps between two exchanges, which the learner only keeps.

  friend bool operator==(const Hyperparameters&, const Hyperparameters&) = default;
};

}  // namespace gv
