// Draws which peers each peer may meet.
#pragma once

#include <cstddef>
#include <vector>

#include "base/ids.hpp"
#include "base/rng.hpp"

namespace gv {

/// For each of `peers` peers, the peers that it may talk to, ascending. If `wanted` is 0 or at
/// least `peers`, these are all peers, including the peer itself. Otherwise they are the peer's two
/// neighbours in a ring, which connects all peers, and random other peers, about `wanted` in total.
/// The peer itself is then not included.
std::vector<std::vector<PeerId>> draw_neighbours(std::size_t peers, std::size_t wanted, Rng draws);

}  // namespace gv
