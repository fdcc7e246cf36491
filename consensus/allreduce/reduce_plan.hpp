// Which rank sends what to whom, in which order, so that every rank ends with the sum of all.
#pragma once

#include <cstddef>
#include <vector>

#include "base/range.hpp"
#include "consensus/allreduce/reduce_algorithm.hpp"

namespace gv {

/// One thing a rank does. Its steps are a list; a step may begin, element by element from the
/// front, as soon as all earlier steps of the list that touch those elements have done so.
struct ReduceStep {
  enum class Kind {
    send,  ///< The values of `range`, as they are then, go to `peer`.
    add,   ///< Values of `range` come from `peer`: add them to what is here.
    copy,  ///< Final values of `range` come from `peer`: put them in place.
  };
  Kind kind = Kind::send;
  std::size_t peer = 0;    ///< The other rank.
  Range range;             ///< Never empty.
  std::size_t round = 0;   ///< (sender, receiver, round) names one message of the reduction.
  bool completes = false;  ///< After this add the values are the sum of all ranks.
};

/// What `rank` of `ranks` does to sum vectors of `elements` values. Every send has exactly one
/// matching add or copy at the other rank, with the same range and round. Who adds what in which
/// order is fixed by the plan, and every element is summed in one place and copied from there, so
/// all ranks end with the same bits however messages are delayed. Empty ranges are left out.
/// Executing every rank's list strictly in order, with sends that do not wait, never deadlocks.
std::vector<ReduceStep> reduce_plan(ReduceAlgorithm algorithm, std::size_t ranks, std::size_t rank,
                                    std::size_t elements);

/// What `rank` does so that everybody gets every part as the rank of its number has it: they go
/// round the ring. Likewise, and nothing is added.
std::vector<ReduceStep> gather_plan(const std::vector<Range>& parts, std::size_t rank);

/// What an all-reduce of 4-byte values costs by the formulas above; whole elements apart.
struct ReduceCost {
  double rounds = 0;          ///< In a round every rank sends and receives at most one message.
  double phases = 0;          ///< Messages of one phase do not wait for each other.
  double critical_bytes = 0;  ///< The largest message of each round, all rounds together.
  double sent_bytes = 0;      ///< What the busiest rank sends.
  double messages = 0;        ///< Of a rank on average.
  double mean_bytes = 0;      ///< What a rank sends on average, the same in all.
};

ReduceCost reduce_cost(ReduceAlgorithm algorithm, std::size_t ranks, std::size_t elements);

/// To which phase the messages of a round belong.
std::size_t phase_of(ReduceAlgorithm algorithm, std::size_t ranks, std::size_t round);

/// What a message costs on a link: a time of its own, and time for each byte.
struct LinkCost {
  double latency_s = 0;
  double seconds_per_byte = 0;
};

/// What a link is thought to be like until it is measured: 10 Gbit/s in one building, between
/// processes of one host, or where these read each other's memory.
inline constexpr LinkCost network_link{.latency_s = 60e-6, .seconds_per_byte = 0.8e-9};
inline constexpr LinkCost host_link{.latency_s = 5e-6, .seconds_per_byte = 0.2e-9};
inline constexpr LinkCost memory_link{.latency_s = 5e-6, .seconds_per_byte = 0.05e-9};

/// Where a sum is made.
struct ReduceSite {
  LinkCost link = network_link;  ///< Between any two, where nothing was measured.
  /// On the fullest host; 0: so few that processors never are what a sum waits for.
  double peers_per_processor = 0;
  bool is_one_host = false;    ///< All are on it, and wait for each other awake.
  bool shares_memory = false;  ///< All read each other's blocks where they lie.
};

/// On a link a byte costs so many times as much as in the ring and the tree: pieces that come
/// before the step that awaits them are kept and copied. (docs/performance.md has the measurements,
/// of the figures below as well.)
double byte_factor(ReduceAlgorithm algorithm);

/// The work of both ends on a message, whatever its length: 25 us where they sleep between messages
/// and are woken up, 6 where they stay awake. It is also what a message takes that its sender sends
/// without waiting for the one before: so many that go to one rank at once are dealt with one by
/// one.
double message_work_s(const ReduceSite& site);

/// What the processors of the fullest host need for their work, where peers share them: that of
/// each message, and for a byte 0.27 to 0.38 ns through sockets, or 0.10 to 0.20 ns where memory is
/// shared. 0 where each peer has one: how long it takes is then for the links to say.
double processor_seconds(ReduceAlgorithm algorithm, std::size_t ranks, std::size_t elements,
                         const ReduceSite& site);

/// A latency for every phase, the work for every further message of it and the critical bytes on
/// the wire, or the processors' work where that takes longer. (Pieces of a message that go on
/// before it is complete make it quicker than that.)
double predicted_seconds(ReduceAlgorithm algorithm, std::size_t ranks, std::size_t elements,
                         const ReduceSite& site);

/// With more ranks no peer is told to send directly: each would need a connection with every other,
/// and peers hold only a limited number of them.
inline constexpr std::size_t direct_ranks_max = 32;

/// Whether an algorithm is fit for this number of ranks.
bool fits(ReduceAlgorithm algorithm, std::size_t ranks);

/// The algorithm with the least predicted time where all links are alike; of equals the first in
/// the order of the enum.
ReduceAlgorithm fastest(std::size_t ranks, std::size_t elements, const ReduceSite& site);

}  // namespace gv
