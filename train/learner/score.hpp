// The loss and accuracy of a learner on the samples that it has learned from.
#pragma once

#include <cstddef>

namespace gv {

/// Sums over the samples of one or more batches. A sequence has one prediction for each position;
/// any other sample has one.
struct Score {
  double loss = 0;  ///< Sum of all predictions' losses.
  /// Number of predictions whose largest output is that of the true label.
  std::size_t correct = 0;
  std::size_t samples = 0;  ///< Number of samples: sequences, images or rows.
  std::size_t predictions = 0;
  bool of_inputs = false;  ///< True if the outputs were compared with the inputs themselves.

  double mean_loss() const { return predictions ? loss / static_cast<double>(predictions) : 0; }
  double accuracy() const {
    return predictions ? static_cast<double>(correct) / static_cast<double>(predictions) : 0;
  }

  Score& operator+=(const Score& more) {
    loss += more.loss;
    correct += more.correct;
    samples += more.samples;
    predictions += more.predictions;
    of_inputs = of_inputs || more.of_inputs;
    return *this;
  }
};

}  // namespace gv
