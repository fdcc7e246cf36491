// Whom each peer may meet where not everybody may meet everybody.
#pragma once

#include <cstddef>
#include <vector>

#include "base/ids.hpp"
#include "base/rng.hpp"

namespace gv {

/// For each of `peers` peers, whom it may talk to, itself included: all, or (`wanted` > 0) a ring
/// of both its neighbours, so that all are connected, and others drawn until it has about `wanted`.
std::vector<std::vector<PeerId>> draw_neighbours(std::size_t peers, std::size_t wanted, Rng draws);

}  // namespace gv
