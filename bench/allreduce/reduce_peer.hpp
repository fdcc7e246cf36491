// A peer that does nothing but sum vectors with others over real links, and says how long it takes.
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

/// What all ranks of a measurement have alike.
struct ReduceTask {
  std::vector<std::size_t> sizes;            ///< Bytes of a vector, a multiple of 4; one row each.
  LaneKind lane = LaneKind::automatic;       ///< Plain lanes are allowed: nobody else listens.
  std::optional<ReduceAlgorithm> algorithm;  ///< Empty: the one predicted to be the fastest.
  std::size_t repeats = 0;                   ///< Operations timed for each size; 0: see below.
  std::size_t segment_bytes = block_bytes_usual;  ///< Of one block, at most `segment_bytes_max`.
};

struct ReducePeerOptions {
  ReduceTask task;
  std::filesystem::path folder;  ///< With authorized_peers, its order being that of the ranks.
  std::size_t rank = 0;          ///< Our key is `folder`/NAME/key.
  std::string listen;
  std::uint16_t lane_port = 0;
  std::vector<std::string> join;  ///< "name@host:port"; of two ranks one has to dial the other.
};

/// Meets the other ranks and sums vectors of each size with them, one operation after the other
/// without a pause. Before and after those that are timed the result of one is compared with the
/// closed form. Without `repeats` as many are timed as take about a second, at least 20 of up to
/// 1 MiB, 10 of up to 32 MiB, 5 of more, and at most 1000. Prints one JSON line for each size:
/// bytes, algorithm, lane, seconds (a list: one for each operation), sent_bytes and cpu_seconds (of
/// one operation). Then waits for SIGTERM. Returns 0, or 1 with a sentence on standard error when a
/// sum is wrong, a rank is lost or SIGTERM comes early. If whoever started it is gone by then, the
/// folder goes with the last rank.
int run_reduce_peer(const ReducePeerOptions& options);

}  // namespace gv
