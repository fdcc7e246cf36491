// The settings in which learners of a population differ.
#pragma once

namespace gv {

/// The settings in which peers of a population differ, and which change while training runs.
struct Hyperparameters {
  double learning_rate = 0;  ///< The peak of the schedule; the schedule's shape stays.
  double momentum = 0;

  friend bool operator==(const Hyperparameters&, const Hyperparameters&) = default;
};

}  // namespace gv
