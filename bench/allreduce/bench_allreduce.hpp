// How fast vectors are summed over real links: a process for each rank, a table of sizes and ranks.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "bench/allreduce/reduce_peer.hpp"

namespace gv {

struct BenchAllreduceOptions {
  ReduceTask task;
  std::vector<std::size_t> peers;  ///< Numbers of ranks, each at least 2.
  std::filesystem::path json;      ///< File for the rows, with every time; empty: none.
  std::filesystem::path program;   ///< The grapevine binary.
};

/// "64 KiB".
std::string bytes_text(std::size_t bytes);
/// The reverse, without the space; B, KiB, MiB or GiB, or nothing for bytes. Empty of other text.
std::optional<std::size_t> bytes_from_text(const std::string& text);

/// For each number of ranks starts a process for each rank, with new keys in a temporary folder,
/// and prints a row for each size as it comes. A sum takes as long as its slowest rank. The
/// processes end with this one, however it ends. Returns 0, or 1 with a sentence when a rank
/// failed, nothing came for two minutes or the user interrupted.
int bench_allreduce(const BenchAllreduceOptions& options);

}  // namespace gv
