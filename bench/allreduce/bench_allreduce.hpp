// Measures how fast vectors are summed over real links with one process per rank, and prints a
// table.
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
  std::vector<std::size_t> peers;  ///< Numbers of ranks to measure with, each at least 2.
  std::filesystem::path json;      ///< File for the rows and all times. Empty means none.
  std::filesystem::path program;   ///< Path of the grapevine binary.
};

/// Formats a size, for example "64 KiB".
std::string bytes_text(std::size_t bytes);
/// Parses a size such as "64KiB". The unit is B, KiB, MiB or GiB, and may be omitted for bytes.
/// Returns nullopt for other text.
std::optional<std::size_t> bytes_from_text(const std::string& text);

/// For each number of ranks, starts one process per rank with new keys in a temporary folder, and
/// prints a row for each size as it is measured. The time of a sum is that of its slowest rank. All
/// processes end if this one ends for any reason. Returns 0, or 1 with a message if a rank failed,
/// no row was completed for two minutes, or the user interrupted.
int bench_allreduce(const BenchAllreduceOptions& options);

}  // namespace gv
