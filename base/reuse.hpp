// Buffers that are reused once all holders have released them, instead of being freed.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace gv {

/// Hands out shared buffers. A buffer that only the pool still holds is handed out again, with its
/// old contents. Without the pool, each model-sized buffer would go back to the system, and
/// allocating it again would cost a page fault for every 4 KiB, which takes longer than filling it.
/// Every holder must release its buffer on the thread that calls `take`. Buffers are memory and not
/// state, so all pools compare equal.
template <class T>
class Reuse {
 public:
  /// The pool keeps at most `kept_max` buffers. It can hand out more; those are freed by their last
  /// holders.
  explicit Reuse(std::size_t kept_max) : kept_max_(kept_max) {}
  /// A copy begins without buffers and shares none with the original.
  Reuse(const Reuse& other) : kept_max_(other.kept_max_) {}
  Reuse(Reuse&&) noexcept = default;
  Reuse& operator=(const Reuse& other) { return *this = Reuse(other.kept_max_); }
  Reuse& operator=(Reuse&&) noexcept = default;
  ~Reuse() = default;

  std::shared_ptr<T> take() {
    for (const std::shared_ptr<T>& buffer : kept_) {
      if (buffer.use_count() == 1) return buffer;
    }
    auto fresh = std::make_shared<T>();
    if (kept_.size() < kept_max_) kept_.push_back(fresh);
    return fresh;
  }

  /// Frees the buffers that only the pool holds. The pool also forgets all others, so they are not
  /// handed out again.
  void clear() { kept_.clear(); }

  /// Returns `lent` as a buffer that may be changed in place. Null unless only this pool and `lent`
  /// hold it.
  std::shared_ptr<T> sole(const std::shared_ptr<const T>& lent) const {
    for (const std::shared_ptr<T>& buffer : kept_) {
      if (buffer == lent && buffer.use_count() == 2) return buffer;
    }
    return nullptr;
  }

  friend bool operator==(const Reuse&, const Reuse&) { return true; }
  /// Adds nothing to a StateHash, because buffers are not state.
  void add_to(auto&) const {}

 private:
  std::size_t kept_max_;
  std::vector<std::shared_ptr<T>> kept_;
};

}  // namespace gv
