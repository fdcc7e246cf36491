// Draws which peers each peer may meet.
#pragma once

#include <cstddef>
#include <vector>

#include "base/ids.hpp"
#include "base/rng.hpp"

namespace gv {

/// For each of `peers` peers, the peers that it may talk to, including itself. These are all peers,
/// or if `wanted` > 0 its two neighbours in a ring, which connects all peers, and random ones up to
/// about `wanted`.
std::vector<std::vector<PeerId>> draw_neighbours(std::size_t peers, std::size_t wanted, Rng draws);

}  // namespace gv
