// Accuracy of a checkpoint file on its run's test data.
#pragma once

#include <string>

namespace gv {

struct EvaluateOptions {
  std::string file;
  std::string config;  ///< Empty: the settings stored in the checkpoint.
};

/// Prints loss and accuracy. Returns the exit code.
int evaluate_command(const EvaluateOptions& options);

}  // namespace gv
