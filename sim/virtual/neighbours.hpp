// Which peers each peer may meet, where that is not all.
#pragma once

#include <cstddef>
#include <vector>

#include "base/ids.hpp"
#include "base/rng.hpp"

namespace gv {

/// For each of `peers` peers, the peers it may talk to, itself included: all, or (`wanted` > 0) its
/// two neighbours in a ring, so that all are connected, and drawn ones up to about `wanted`.
std::vector<std::vector<PeerId>> draw_neighbours(std::size_t peers, std::size_t wanted, Rng draws);

}  // namespace gv
