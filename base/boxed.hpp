// A value on the heap. Its type may be incomplete in the header of the class that owns it.
#pragma once

#include <memory>
#include <utility>

namespace gv {

/// Owns a T and copies it like a plain member. T must be complete wherever a Boxed<T> is made,
/// copied or destroyed, so an owner declares its own copy operations and destructor in its header
/// and defines them in its source. A moved-from Boxed may only be destroyed or assigned to.
template <class T>
class Boxed {
 public:
  explicit Boxed(T value) : value_(std::make_unique<T>(std::move(value))) {}
  Boxed(const Boxed& other) : value_(new T(*other.value_)) {}
  Boxed(Boxed&&) noexcept = default;
  Boxed& operator=(const Boxed& other) {
    value_.reset(new T(*other.value_));
    return *this;
  }
  Boxed& operator=(Boxed&&) noexcept = default;
  ~Boxed() = default;

  T* operator->() { return value_.get(); }
  const T* operator->() const { return value_.get(); }
  T& operator*() { return *value_; }
  const T& operator*() const { return *value_; }

 private:
  std::unique_ptr<T> value_;
};

}  // namespace gv
