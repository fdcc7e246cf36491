// A half-open range of elements of a vector.
#pragma once

#include <cstddef>

namespace gv {

/// The elements begin, begin+1, ..., end-1.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  friend bool operator==(const Range&, const Range&) = default;
};

}  // namespace gv
