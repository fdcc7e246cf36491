// A built-in learner that is as small as possible.
#pragma once

#include <memory>

#include "train/built_in_learner.hpp"

namespace gv {

/// A network with four hidden units that trains on two samples of two classes.
inline std::unique_ptr<Learner> tiny_learner(OptimizerKind kind) {
  const auto data = std::make_shared<DataSet>();
  data->shape = {1, 1, 4};
  data->classes = 2;
  data->bytes = {1, 2, 3, 4, 5, 6, 7, 8};
  data->scale = 1;
  data->labels = {0, 1};
  return built_in_learner({.model = mlp({4}, 2), .optimizer = {.kind = kind}, .batch = 2}, data);
}

}  // namespace gv
