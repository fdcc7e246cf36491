// Draws which peers each peer may meet.
#pragma once

#include <cstddef>
#include <vector>

#include "base/ids.hpp"
#include "base/rng.hpp"

namespace gv {

/// Returns, for each of `peers` peers, a sorted list of the peers that it may talk to. If `wanted`
/// is 0 or at least `peers`, each list contains all peers, including the peer itself. Otherwise,
/// each list contains about `wanted` other peers: two neighbours in a ring, which connects all
/// peers, and random ones.
std::vector<std::vector<PeerId>> draw_neighbours(std::size_t peers, std::size_t wanted, Rng draws);

}  // namespace gv
