// The all-reduce algorithms, by name and cost.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace gv {

/// The cost of an all-reduce of m bytes among n ranks, with k = floor(lg n), latency L, G seconds
/// per byte, and g seconds for each message that is sent without waiting for the previous one:
///
/// | algorithm          | rounds       | one rank sends at most | seconds                        |
/// |--------------------|--------------|------------------------|--------------------------------|
/// | ring               | 2(n-1)       | 2m(n-1)/n              | 2L(n-1) + 2mG(n-1)/n           |
/// | halving, n = 2^k   | 2k           | 2m(n-1)/n              | 2Lk + 2mG(n-1)/n               |
/// | halving, n > 2^k   | 2(k+1)       | m + 2m(2^k-1)/2^k      | 2L(k+1) + 2mG + 2mG(2^k-1)/2^k |
/// | tree               | 2 ceil(lg n) | m ceil(lg n)           | 2(L + mG) ceil(lg n)           |
/// | direct             | 2(n-1)       | 2m(n-1)/n              | 2L + 2g(n-2) + 2mG(n-1)/n      |
/// | butterfly, n = 2^k | k            | mk                     | (L + mG)k                      |
/// | butterfly, n > 2^k | k + 2        | m(k+1)                 | (L + mG)(k+2)                  |
///
/// (Patarasuk and Yuan 2009 for the ring; Rabenseifner 2004 for halving and doubling, which is
/// latency-optimal and bandwidth-optimal where n is a power of two. Thakur, Rabenseifner and Gropp
/// 2005 compare both with the tree and with the butterfly, which they call recursive doubling.) The
/// ring loads two links of every rank and is the only one whose links can be chosen. The tree needs
/// the fewest connections, n-1. In `direct` a rank waits only once, between the two halves. But
/// every rank needs a connection with every other and receives from all others at about the same
/// time. The butterfly has the fewest rounds but sends whole vectors. It is the only one in which
/// several ranks add the same values.
enum class ReduceAlgorithm : std::uint8_t {
  ring,  ///< Chunks travel round the ring twice: first to be summed, then as final sums.
  halving_doubling,  ///< Ranks exchange halves, quarters, ... with ranks 1, 2, 4, ... away, then
                     ///< reverse the process.
  tree,              ///< A binomial tree sums towards rank 0, which broadcasts.
  direct,            ///< Every rank sums one chunk, which all others send to it, and sends the sum
                     ///< to all.
  butterfly,         ///< Ranks exchange and add whole vectors with ranks 1, 2, 4, ... away.
};

/// All algorithms, in the order of their numbers. Configs, the command line, automatic choices and
/// simulated worlds all use this list. So a new algorithm needs only an enumerator and a row in the
/// table in reduce_plan.cpp.
std::span<const ReduceAlgorithm> reduce_algorithms();

/// The algorithm's name in configs.
std::string_view to_string(ReduceAlgorithm algorithm);

/// The algorithm of that name; nullopt if there is none.
std::optional<ReduceAlgorithm> algorithm_named(std::string_view name);

/// "auto, ring, ... or butterfly", for messages and help.
std::string algorithm_names();

}  // namespace gv
