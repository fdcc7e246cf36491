// One step's gradient that a program gives tensor by tensor.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "peer/host/gradient_parts.hpp"
#include "peer/library/user_tensors.hpp"

namespace gv {

/// Knows where each tensor of a model has its gradient, as far as the program has said so.
class GivenGradient {
 public:
  /// `model` must outlive this object.
  explicit GivenGradient(const UserTensors& model);

  /// Notes some tensors, which have the names of the model's, and returns them as parts. Throws
  /// std::invalid_argument, and then notes none, if one is not the model's or was given before.
  std::vector<GradientPart> add(const UserTensors& tensors);
  bool is_empty() const { return count_ == 0; }
  /// Returns all tensors in the model's order; afterwards none counts as given. Throws
  /// std::invalid_argument, and then changes nothing, if some are missing.
  UserTensors take();

 private:
  const UserTensors* model_;
  std::map<std::string, std::size_t> places_;  ///< In the list of the model's tensors, by name.
  std::vector<std::size_t> begins_;            ///< In the model's vector.
  std::vector<std::optional<UserTensor>> given_;
  std::size_t count_ = 0;
};

}  // namespace gv
