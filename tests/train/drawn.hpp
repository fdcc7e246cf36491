// Random inputs for tests of layers and networks.
#pragma once

#include <cstddef>
#include <vector>

#include "base/rng.hpp"

namespace gv {

template <class T>
std::vector<T> normals(std::size_t count, Rng& rng) {
  std::vector<T> values(count);
  for (T& value : values) value = static_cast<T>(rng.normal());
  return values;
}

}  // namespace gv
