// A vector of floats whose creator chooses where its memory comes from.
#pragma once

#include <memory_resource>
#include <vector>

namespace gv {

/// Values to be sent to other peers. In shared memory of the runtime they reach a peer on the same
/// host without a copy. Otherwise a vector like any other.
using Floats = std::pmr::vector<float>;

}  // namespace gv
