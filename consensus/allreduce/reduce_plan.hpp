// Plans an all-reduce: the sends, additions and copies of each rank, in order.
#pragma once

#include <cstddef>
#include <vector>

#include "base/range.hpp"
#include "consensus/allreduce/reduce_algorithm.hpp"

namespace gv {

/// One action in a rank's list of steps. A step processes its elements in order. It processes an
/// element once all earlier steps in the list that touch this element have processed it.
struct ReduceStep {
  enum class Kind {
    send,  ///< Send the current values of `range` to `peer`.
    add,   ///< Receive values of `range` from `peer` and add them to ours.
    copy,  ///< Receive final values of `range` from `peer` and store them.
  };
  Kind kind = Kind::send;
  std::size_t peer = 0;    ///< The other rank.
  Range range;             ///< The elements concerned; never empty.
  std::size_t round = 0;   ///< Together with sender and receiver, the round identifies one message
                           ///< of the reduction.
  bool completes = false;  ///< True for an add after which the values are the sum of all ranks.
};

/// The steps of `rank` when `ranks` ranks sum vectors of `elements` values. Every send has exactly
/// one matching add or copy at the other rank, with the same range and round. Empty ranges are left
/// out. The plan fixes the order of additions. Either one rank sums an element and all others copy
/// the result, or all ranks that sum it add the same pairs of partial sums. So all ranks end with
/// the same bits, however messages are delayed. If sends do not block, executing every rank's list
/// strictly in order never deadlocks.
std::vector<ReduceStep> reduce_plan(ReduceAlgorithm algorithm, std::size_t ranks, std::size_t rank,
                                    std::size_t elements);

/// The steps of `rank` in an all-gather: part i travels round the ring from rank i, and every rank
/// gets it unchanged. The rules of reduce_plan() hold, but nothing is added.
std::vector<ReduceStep> gather_plan(const std::vector<Range>& parts, std::size_t rank);

/// The steps of `rank` when rank 0 sends each of the other ranks its part.
std::vector<ReduceStep> deal_plan(const std::vector<Range>& parts, std::size_t rank);

/// The cost of an all-reduce of 4-byte values by the formulas at ReduceAlgorithm, which ignore
/// rounding to whole elements.
struct ReduceCost {
  double rounds = 0;          ///< Number of rounds. In a round every rank sends and receives at
                              ///< most one message.
  double phases = 0;          ///< Number of phases. Messages of one phase do not wait for each
                              ///< other.
  double critical_bytes = 0;  ///< The largest message of each round, summed over rounds.
  double sent_bytes = 0;      ///< Bytes sent by the busiest rank.
  double messages = 0;        ///< Messages sent by a rank, on average.
  double mean_bytes = 0;      ///< Bytes sent by a rank, on average.
};

ReduceCost reduce_cost(ReduceAlgorithm algorithm, std::size_t ranks, std::size_t elements);

/// The phase to which the messages of a round belong.
std::size_t phase_of(ReduceAlgorithm algorithm, std::size_t ranks, std::size_t round);

/// The cost of a message on a link: a fixed time, and a time for each byte.
struct LinkCost {
  double latency_s = 0;
  double seconds_per_byte = 0;
};

/// The assumed costs of an unmeasured link. `network_link`: 10 Gbit/s within a building.
/// `host_link`: between processes on one host. `memory_link`: between processes that read each
/// other's memory.
inline constexpr LinkCost network_link{.latency_s = 60e-6, .seconds_per_byte = 0.8e-9};
inline constexpr LinkCost host_link{.latency_s = 5e-6, .seconds_per_byte = 0.2e-9};
inline constexpr LinkCost memory_link{.latency_s = 5e-6, .seconds_per_byte = 0.05e-9};

/// The hosts and links on which a sum is computed.
struct ReduceSite {
  LinkCost link = network_link;  ///< Cost of any link that was not measured.
  /// Number of peers for each processor on the fullest host. 0 means that a sum never waits for a
  /// processor.
  double peers_per_processor = 0;
  bool is_one_host = false;    ///< True if all peers are on one host and stay awake while they
                               ///< wait.
  bool shares_memory = false;  ///< True if all peers read each other's blocks in place, without a
                               ///< copy.
};

/// The cost of a byte on a link, relative to its cost in the ring and the tree. The factor is
/// larger if pieces arrive before the step that awaits them, because early pieces must be kept and
/// copied. (docs/performance.md has the measurements for this and for the figures below.)
double byte_factor(ReduceAlgorithm algorithm);

/// Processor time that both ends together spend on a message, whatever its length: 25 us if they
/// sleep between messages and have to be woken up, 6 us if they stay awake. A message that does not
/// wait for the previous one takes this time too, because a rank handles messages that arrive
/// together one by one.
double message_work_s(const ReduceSite& site);

/// Seconds that the processors of the fullest host work, if peers share them: message_work_s for
/// each message, and for each byte 0.27 to 0.38 ns through sockets or 0.10 to 0.20 ns through
/// shared memory. 0 if each peer has its own host, because then only the links determine the time.
double processor_seconds(ReduceAlgorithm algorithm, std::size_t ranks, std::size_t elements,
                         const ReduceSite& site);

/// The seconds that an all-reduce takes, as the sum of three times: a latency for every phase, the
/// work for each further message of the phase, and the critical bytes on the wire. If the
/// processors' work takes longer, returns that instead. (The real time is shorter, because pieces
/// of a message are passed on before the message is complete.)
double predicted_seconds(ReduceAlgorithm algorithm, std::size_t ranks, std::size_t elements,
                         const ReduceSite& site);

/// The largest number of ranks for which `direct` is chosen. This algorithm needs a connection
/// between every two peers, and peers hold only a limited number of connections.
inline constexpr std::size_t direct_ranks_max = 32;

/// True if an algorithm suits this number of ranks.
bool fits(ReduceAlgorithm algorithm, std::size_t ranks);

/// The algorithm with the shortest predicted time if all links are equal. On ties, the first in the
/// order of the enumeration.
ReduceAlgorithm fastest(std::size_t ranks, std::size_t elements, const ReduceSite& site);

}  // namespace gv
