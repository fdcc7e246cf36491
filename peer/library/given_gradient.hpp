// One step's gradient, given tensor by tensor by a program.
#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "peer/host/gradient_parts.hpp"
#include "peer/library/user_tensors.hpp"

namespace gv {

/// Knows the place of each tensor's gradient that the program has given.
class GivenGradient {
 public:
  /// `model` must outlive this object.
  explicit GivenGradient(const UserTensors& model);

  /// Notes some tensors, which are named like the model's, and returns them as parts. If one is not
  /// the model's or was given before, throws std::invalid_argument and notes none.
  std::vector<GradientPart> add(const UserTensors& tensors);
  bool is_empty() const { return count_ == 0; }
  /// Returns all tensors in the model's order; afterwards none counts as given. If some are
  /// missing, throws std::invalid_argument and changes nothing.
  UserTensors take();

 private:
  const UserTensors* model_;
  std::map<std::string, std::size_t> places_;  ///< Indices in the list of the model's tensors, by
                                               ///< name.
  std::vector<std::size_t> begins_;            ///< Where each tensor begins in the model's vector.
  std::vector<std::optional<UserTensor>> given_;
  std::size_t count_ = 0;
};

}  // namespace gv
