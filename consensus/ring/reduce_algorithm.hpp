// The ways to sum a vector over ranks, by name and price.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gv {

/// m bytes, n ranks, k = floor(lg n), latency L, seconds per byte G:
///
/// | algorithm         | rounds       | one rank sends at most | seconds                          |
/// |-------------------|--------------|------------------------|----------------------------------|
/// | ring              | 2(n-1)       | 2m(n-1)/n              | 2L(n-1) + 2mG(n-1)/n             |
/// | halving, n = 2^k  | 2k           | 2m(n-1)/n              | 2Lk + 2mG(n-1)/n                 |
/// | halving, n > 2^k  | 2(k+1)       | m + 2m(2^k-1)/2^k      | 2L(k+1) + 2mG + 2mG(2^k-1)/2^k   |
/// | tree              | 2 ceil(lg n) | m ceil(lg n)           | 2(L + mG) ceil(lg n)             |
///
/// (Patarasuk and Yuan 2009 for the ring; Rabenseifner 2004 for halving and doubling, which is
/// latency-optimal and bandwidth-optimal where n is a power of two. Thakur, Rabenseifner and Gropp
/// 2005 compare all three.) The ring loads two links of every rank and is the only one whose links
/// can be chosen; the tree needs the fewest connections, n-1.
enum class ReduceAlgorithm : std::uint8_t {
  ring,              ///< Chunks travel round: once while they are summed, once more when final.
  halving_doubling,  ///< Exchange halves, quarters, ... with ranks 1, 2, 4, ... away, and back.
  tree,              ///< A binomial tree sums towards rank 0, which broadcasts.
};

inline constexpr std::array reduce_algorithms = {
    ReduceAlgorithm::ring, ReduceAlgorithm::halving_doubling, ReduceAlgorithm::tree};

std::string_view to_string(ReduceAlgorithm algorithm);

/// The algorithm of that name, with '-' or '_' between its words; empty if there is none.
std::optional<ReduceAlgorithm> algorithm_named(std::string name);

}  // namespace gv
