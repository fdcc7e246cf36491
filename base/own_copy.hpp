// A shared value that is copied together with its holder.
#pragma once

#include <memory>
#include <utility>

namespace gv {

/// Like std::shared_ptr, but a copy points to a copy of the value. So an object that writes to
/// memory which others hold too, such as the network, can be copied, and the copy writes to
/// separate memory.
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
