// Tensors in a program's memory, copied to one vector of floats and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "base/problems.hpp"
#include "train/learner/layout.hpp"

namespace gv {

enum class TensorType : std::uint32_t { f32, f16, bf16, f64, i64 };

/// A dense tensor in row-major order, in the program's memory.
struct UserTensor {
  std::string name;
  std::byte* data = nullptr;
  std::vector<std::size_t> shape;
  std::size_t elements = 0;
  TensorType type = TensorType::f32;

  /// The number of floats needed for the values. Values of type f64 are rounded to floats; all
  /// other types are kept exactly. An integer becomes four floats with 16 of its bits each, so that
  /// all four are finite.
  std::size_t floats() const;
};

/// A list of tensors whose values follow each other in one vector.
class UserTensors {
 public:
  void add(UserTensor tensor);
  const std::vector<UserTensor>& all() const { return all_; }
  bool contains(const std::string& name) const { return names_.contains(name); }

  /// Number of floats in all tensors.
  std::size_t size() const { return size_; }
  Layout layout() const;

  /// Copies the tensors to `to`, which has size() floats.
  void read(std::span<float> to) const;
  /// The largest magnitude of all values as read() returns them. Infinite or NaN if any value is.
  float largest_magnitude() const;
  /// Throws std::invalid_argument if a tensor has a value that is not finite, because no peer would
  /// accept such a model.
  void check_finite() const;
  /// Copies size() floats to the tensors.
  void write(std::span<const float> from) const;

 private:
  std::vector<UserTensor> all_;
  std::unordered_set<std::string> names_;
  std::size_t size_ = 0;
};

/// Reports a problem if the model has more tensors than a checkpoint or a run's model file can
/// hold.
Problems checkpoint_problems(const UserTensors& model);

}  // namespace gv
