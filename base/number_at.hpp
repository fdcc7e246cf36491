// Reads a number at any address in memory.
#pragma once

#include <cstddef>
#include <cstring>

namespace gv {

/// Returns the number whose bytes begin at `from`, in this machine's byte order. The address need
/// not be aligned for the type.
template <class Number>
Number number_at(const std::byte* from) {
  Number number;
  std::memcpy(&number, from, sizeof number);
  return number;
}

}  // namespace gv
