// Buffers that are used again once all their holders let go, instead of being freed and allocated.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace gv {

/// Hands out shared buffers. A buffer that only the pool still holds is handed out again, with its
/// old contents. Freed memory of a model's size would go back to the system, and getting it again
/// costs a page fault every 4 KiB, which is more than filling it. Every holder must let go on the
/// thread that calls `take`.
template <class T>
class Reuse {
 public:
  /// Keeps at most `kept_max` buffers; more may be lent, but those are freed by their holders.
  explicit Reuse(std::size_t kept_max) : kept_max_(kept_max) {}

  std::shared_ptr<T> take() {
    for (const std::shared_ptr<T>& buffer : kept_) {
      if (buffer.use_count() == 1) return buffer;
    }
    auto fresh = std::make_shared<T>();
    if (kept_.size() < kept_max_) kept_.push_back(fresh);
    return fresh;
  }

  /// The buffer that `lent` refers to, for changes in place. Null if anything besides this pool and
  /// `lent` itself holds it.
  std::shared_ptr<T> sole(const std::shared_ptr<const T>& lent) const {
    for (const std::shared_ptr<T>& buffer : kept_) {
      if (buffer == lent && buffer.use_count() == 2) return buffer;
    }
    return nullptr;
  }

 private:
  std::size_t kept_max_;
  std::vector<std::shared_ptr<T>> kept_;
};

}  // namespace gv
