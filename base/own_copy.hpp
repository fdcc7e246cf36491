// A shared value that is copied together with its holder.
#pragma once

#include <memory>
#include <utility>

namespace gv {

/// Like std::shared_ptr, but a copy points to a copy of the value. A copied object therefore never
/// writes to the original's memory, which others, such as the network, may still hold.
template <class T>
class OwnCopy : public std::shared_ptr<T> {
 public:
  OwnCopy() = default;
  OwnCopy(std::shared_ptr<T> value) : std::shared_ptr<T>(std::move(value)) {}
  OwnCopy(const OwnCopy& other)
      : std::shared_ptr<T>(other ? std::make_shared<T>(*other) : nullptr) {}
  OwnCopy(OwnCopy&&) noexcept = default;
  OwnCopy& operator=(const OwnCopy& other) { return *this = OwnCopy(other); }
  OwnCopy& operator=(OwnCopy&&) noexcept = default;
  ~OwnCopy() = default;
};

}  // namespace gv
