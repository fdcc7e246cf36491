// Orders peers in a ring so that its slowest link is as fast as possible.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace gv {

/// A ring is as fast as its slowest link, because every link carries the same bytes. Returns the
/// peers 0..peers-1, beginning with 0, in the cyclic order whose slowest link (from each peer to
/// the next and from the last to 0) takes the fewest `seconds`. Among equally fast orders, the one
/// whose links have the smallest total time wins. The two directions of a link may differ. NaN,
/// infinity or a negative number means that there is no link; such a link is used only where there
/// is no other way.
///
/// Exact for up to `exact_up_to` peers (at most 16), by dynamic programming over subsets (Bellman
/// 1962; Held and Karp 1962): peers^2 * 2^peers operations. For more peers it searches: it bisects
/// over the slowest link allowed, and for each limit improves a greedy ring by moving segments (Or
/// 1976) and reversing them (Croes 1958). Random moves lead out of local optima. They always use
/// the same seed, so the same links give the same ring on every peer. A round of moves takes
/// peers^3 operations. The search takes about 20 ms for 32 peers, 100 ms for 64, and a second for
/// 128.
std::vector<std::size_t> ring_order(
    std::size_t peers, const std::function<double(std::size_t from, std::size_t to)>& seconds,
    std::size_t exact_up_to = 12);

}  // namespace gv
