// Error feedback: keeps the values that a compressor did not send, and adds them to the next
// gradient.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "consensus/compression/gradient_compressor.hpp"

namespace gv {

/// The errors of one replica's gradients: the parts that were not sent. A gradient's errors count
/// only once the sum that includes the gradient has arrived. Until then the gradient can be encoded
/// again.
class ErrorFeedback {
 public:
  explicit ErrorFeedback(std::size_t elements) : elements_(elements) {}

  /// Adds the errors of all confirmed gradients.
  void add_to(std::span<float> gradient) const {
    for (std::size_t i = 0; i < waiting_.size(); ++i) gradient[i] += waiting_[i];
  }
  /// Returns the memory for the errors of the newest gradient, which is valid until the next call.
  /// The memory initially holds the values of `gradient`.
  std::span<float> begin(std::span<const float> gradient) {
    is_encoded_ = true;
    errors_.assign(gradient.begin(), gradient.end());
    return errors_;
  }
  /// Call when the sum with the newest gradient has arrived. The errors of that gradient replace
  /// the waiting ones.
  void confirm() {
    if (std::exchange(is_encoded_, false)) std::swap(waiting_, errors_);
  }
  void clear() {
    waiting_.clear();
    is_encoded_ = false;
  }

  /// The errors as they are stored in a checkpoint. Their name is the one that top-k uses, because
  /// it keeps values of the same kind.
  GradientCompressor::Named kept() const {
    if (waiting_.empty()) return {};
    return {{name, waiting_}};
  }
  /// Restores the errors from a checkpoint. Ignores other names and vectors of another size.
  void restore(const std::string& of, std::vector<float> values) {
    if (of == name && values.size() == elements_) waiting_ = std::move(values);
  }

 private:
  static constexpr const char* name = "waiting";

  std::size_t elements_;
  std::vector<float> waiting_;  ///< The errors of all confirmed gradients. Empty if there are none.
  std::vector<float> errors_;   ///< The value of `waiting_` once the newest gradient is confirmed.
  bool is_encoded_ = false;     ///< True until the sum with the newest gradient has arrived.
};

}  // namespace gv
