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

/// A dense tensor in row-major order, in memory that is not ours.
struct UserTensor {
  std::string name;
  std::byte* data = nullptr;
  std::vector<std::size_t> shape;
  std::size_t elements = 0;
  TensorType type = TensorType::f32;

  /// Number of floats that hold its values exactly, except for an f64, which is rounded. An integer
  /// takes four floats, each with 16 of its bits, so that all are finite.
  std::size_t floats() const;
};

/// Several tensors, one after the other.
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
  /// The largest magnitude of a value, as read() returns it; infinite or NaN if a value is.
  float largest_magnitude() const;
  /// Copies size() floats to the tensors.
  void write(std::span<const float> from) const;

 private:
  std::vector<UserTensor> all_;
  std::unordered_set<std::string> names_;
  std::size_t size_ = 0;
};

/// Says that a model has more tensors than a checkpoint, or the model file of a run, can hold.
Problems checkpoint_problems(const UserTensors& model);

}  // namespace gv
