// A vector of floats whose memory its creator chooses.
#pragma once

#include <memory_resource>
#include <vector>

namespace gv {

/// Values to be sent to other peers. If they are in the runtime's shared memory, a peer on the same
/// host reads them without a copy. Otherwise this is an ordinary vector.
using Floats = std::pmr::vector<float>;

}  // namespace gv
