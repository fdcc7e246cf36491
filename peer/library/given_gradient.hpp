// Collects the gradient of one step, which a program supplies one tensor at a time.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "peer/host/gradient_parts.hpp"
#include "peer/library/user_tensors.hpp"

namespace gv {

/// Collects the gradients of the model's tensors, in any order.
class GivenGradient {
 public:
  /// `model` must outlive this object.
  explicit GivenGradient(const UserTensors& model);

  /// Adds gradients whose names match those of the model's tensors, and returns them as parts. If a
  /// name is not in the model, or its gradient was given before, throws std::invalid_argument and
  /// adds none.
  std::vector<GradientPart> add(const UserTensors& tensors);
  bool is_empty() const { return count_ == 0; }
  /// Returns the gradients of all tensors in the model's order, and forgets them. If some are
  /// missing, throws std::invalid_argument and changes nothing.
  UserTensors take();

 private:
  const UserTensors* model_;
  std::map<std::string, std::size_t> places_;  ///< The index of each tensor in the model, by name.
  std::vector<std::size_t> begins_;            ///< Where each tensor begins in the model's vector.
  std::vector<std::optional<UserTensor>> given_;
  std::size_t count_ = 0;
};

}  // namespace gv
