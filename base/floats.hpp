// Numbers in memory that whoever makes them chooses.
#pragma once

#include <memory_resource>
#include <vector>

namespace gv {

/// What is sent to others: in memory that the runtime lends them it needs no copy on its way to a
/// peer on the same host. Otherwise a vector like any other.
using Floats = std::pmr::vector<float>;

}  // namespace gv
