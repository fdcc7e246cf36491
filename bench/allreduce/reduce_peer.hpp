// A peer that only sums vectors with others over real links, and reports the times.
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

/// Options common to all ranks of a measurement.
struct ReduceTask {
  std::vector<std::size_t> sizes;       ///< Bytes of a vector, a multiple of 4; one row each.
  LaneKind lane = LaneKind::automatic;  ///< Plain lanes are allowed: no stranger can listen in.
  std::optional<ReduceAlgorithm> algorithm;  ///< Empty: the one predicted to be the fastest.
  std::size_t repeats = 0;                   ///< Collectives timed for each size; 0: see below.
  /// Bytes of one block, at most `segment_bytes_max`.
  std::size_t segment_bytes = block_bytes_usual;
};

struct ReducePeerOptions {
  ReduceTask task;
  std::filesystem::path folder;  ///< Contains authorized_peers, in the order of ranks.
  std::size_t rank = 0;          ///< Our key is `folder`/NAME/key.
  std::string listen;
  std::uint16_t lane_port = 0;
  std::vector<std::string> join;  ///< "name@host:port"; of two ranks one has to dial the other.
};

/// Meets the other ranks and sums vectors of each size with them, one collective after another
/// without a pause. Before and after the timed ones it compares a result with the closed form.
/// Without `repeats` it times as many as take about a second, at least 20 of up to 1 MiB, 10 of up
/// to 32 MiB, 5 of more, and at most 1000. Prints one JSON line for each size: bytes, algorithm,
/// lane, seconds (a list: one for each collective), sent_bytes and cpu_seconds (of one collective).
/// Then waits for SIGTERM. Returns 0, or 1 with a sentence on standard error when a sum is wrong, a
/// rank is lost or SIGTERM comes early. If the process that started it is gone by then, the last
/// rank removes the folder.
int run_reduce_peer(const ReducePeerOptions& options);

}  // namespace gv
