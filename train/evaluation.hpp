// Evaluates a model on a whole data set.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>
#include <vector>

#include "train/data_set.hpp"
#include "train/model.hpp"

namespace gv {

/// Number of samples evaluated at once: 256, or fewer if samples are large or have many
/// predictions. The model given to evaluate() must be made for this batch size.
std::size_t evaluation_batch(const DataSet& data);

/// Returns `count` samples from `begin` on as one batch. `inputs` must have room for their
/// features. `inputs` and `data` must outlive the batch.
Batch read_batch(const DataSet& data, std::size_t begin, std::size_t count,
                 std::span<float> inputs);

/// The loss and accuracy of a model over a whole data set, computed in batches.
Score evaluate(Model& model, std::span<const float> parameters, const DataSet& data);

/// The outputs of a model for each sample of a data set, (samples, outputs).
std::vector<float> outputs_on(Model& model, std::span<const float> parameters, const DataSet& data);

/// Returns a model's coefficient of determination, R2 = 1 - SS_res / SS_tot. `score` is the model's
/// score on all of `data`, or on a representative part. The targets t are the inputs if
/// `score.of_inputs` is true, and otherwise the data's targets, which must then exist. SS_res is
/// the sum of (output - t)^2 over all samples and outputs. SS_tot is the sum of (t - mean)^2, where
/// the mean is taken over the targets of each output. 1 is perfect, 0 is as good as predicting the
/// means, and a negative value is worse than that. If the targets do not vary, the result is 1 if
/// the model predicts them exactly, else 0. A loss that is not finite gives minus infinity.
double determination(const Score& score, const DataSet& data);

/// The quality of a model, besides its loss. Larger is better.
struct Merit {
  std::string_view name;  ///< "accuracy" if the score is of labels, "r2" if it is of targets or
                          ///< inputs.
  double value = 0;       ///< The accuracy from 0 to 1, or determination().
};
Merit merit_of(const Score& score, const DataSet& data);

}  // namespace gv
