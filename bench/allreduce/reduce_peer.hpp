// A peer that only sums vectors with other ranks over real links and reports the times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "consensus/allreduce/reduce_plan.hpp"
#include "consensus/message/effects.hpp"
#include "peer/config/config.hpp"

namespace gv {

/// Options that all ranks of a measurement share.
struct ReduceTask {
  std::vector<std::size_t> sizes;  ///< Vector sizes in bytes, multiples of 4. One row is printed
                                   ///< for each.
  /// Kind of lane. Unencrypted lanes are allowed, because no stranger can listen in.
  LaneKind lane = LaneKind::automatic;
  std::optional<ReduceAlgorithm> algorithm;  ///< Empty: the algorithm predicted to be fastest.
  /// Number of timed collectives for each size; 0 lets run_reduce_peer() choose.
  std::size_t repeats = 0;
  /// Size of a block in bytes, at most `segment_bytes_max`.
  std::size_t segment_bytes = block_bytes_usual;
};

struct ReducePeerOptions {
  ReduceTask task;
  std::filesystem::path folder;  ///< Contains authorized_peers, with peers in the order of ranks.
  std::size_t rank = 0;          ///< Our rank. Our key is `folder`/NAME/key.
  std::string listen;
  std::uint16_t lane_port = 0;
  /// The ranks to dial, as "name@host:port". Of any two ranks, one must dial the other.
  std::vector<std::string> join;
};

/// Meets the other ranks and sums vectors of each size with them, one collective after another
/// without a pause. Compares a result with the closed form before and after the timed collectives.
/// If `repeats` is 0, the timed collectives of one size take about a second. There are at least 20
/// (up to 1 MiB), 10 (up to 32 MiB) or 5 (above), and at most 1000. Prints one JSON line for each
/// size: bytes, algorithm, lane, seconds (a list with the time of each collective), sent_bytes and
/// cpu_seconds (of one collective). Then waits for SIGTERM. Returns 0, or 1 with a message on
/// standard error if a sum is wrong, a rank is lost or SIGTERM comes early. If the process that
/// started the ranks has ended before them, the last rank removes the folder.
int run_reduce_peer(const ReducePeerOptions& options);

}  // namespace gv
