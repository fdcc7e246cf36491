// Which rank sends what to whom, in which order, so that every rank ends with the sum of all.
#pragma once

#include <cstddef>
#include <string_view>
#include <vector>

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
enum class ReduceAlgorithm {
  ring,              ///< Chunks travel round: once while they are summed, once more when final.
  halving_doubling,  ///< Exchange halves, quarters, ... with ranks 1, 2, 4, ... away, and back.
  tree,              ///< A binomial tree sums towards rank 0, which broadcasts.
};

std::string_view to_string(ReduceAlgorithm algorithm);

/// Elements begin, begin+1, ..., end-1 of the vector that is reduced.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  friend bool operator==(const Range&, const Range&) = default;
};

/// One thing a rank does. Its steps are a list; a step may begin, element by element from the
/// front, as soon as all earlier steps of the list that touch those elements have done so.
struct ReduceStep {
  enum class Kind {
    send,  ///< The values of `range`, as they are then, go to `peer`.
    add,   ///< Values of `range` come from `peer`: add them to what is here.
    copy,  ///< Final values of `range` come from `peer`: put them in place.
  };
  Kind kind = Kind::send;
  std::size_t peer = 0;   ///< The other rank.
  Range range;            ///< Never empty.
  std::size_t round = 0;  ///< (sender, receiver, round) names one message of the reduction.
};

/// What `rank` of `ranks` does to sum vectors of `elements` values. Every send has exactly one
/// matching add or copy at the other rank, with the same range and round. Who adds what in which
/// order is fixed by the plan, and every element is summed in one place and copied from there, so
/// all ranks end with the same bits however messages are delayed. Empty ranges are left out.
/// Executing every rank's list strictly in order, with sends that do not wait, never deadlocks.
std::vector<ReduceStep> reduce_plan(ReduceAlgorithm algorithm, std::size_t ranks, std::size_t rank,
                                    std::size_t elements);

/// What an all-reduce of 4-byte values costs by the formulas above; whole elements apart.
struct ReduceCost {
  double rounds = 0;          ///< In a round every rank sends and receives at most one message.
  double critical_bytes = 0;  ///< The largest message of each round, all rounds together.
  double sent_bytes = 0;      ///< What the busiest rank sends.
};

ReduceCost reduce_cost(ReduceAlgorithm algorithm, std::size_t ranks, std::size_t elements);

/// A latency for every round, and the critical bytes on the wire. (Pieces of a message that go on
/// before it is complete make it quicker than that.)
double predicted_seconds(const ReduceCost& cost, double latency_s, double seconds_per_byte);

/// What a link between two peers is thought to be like until it is measured.
constexpr double assumed_latency_s = 60e-6;
constexpr double assumed_seconds_per_byte = 1 / 2.5e9;

/// The algorithm with the least predicted time; of equals the first in the order of the enum.
ReduceAlgorithm fastest(std::size_t ranks, std::size_t elements, double latency_s,
                        double seconds_per_byte);

}  // namespace gv
