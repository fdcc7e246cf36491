// A number at any address in memory.
#pragma once

#include <cstddef>
#include <cstring>

namespace gv {

/// The number whose bytes begin at `from`, in this machine's byte order. The bytes need not be
/// aligned for its type.
template <class Number>
Number number_at(const std::byte* from) {
  Number number;
  std::memcpy(&number, from, sizeof number);
  return number;
}

}  // namespace gv
