// Engines that start many processes (Slurm, MPI, torchrun, Kubernetes), and the variables that tell
// each process its rank.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/problems.hpp"

namespace gv {

/// A row of the table of engines: the environment variables by which an engine tells a process its
/// rank and the number of ranks. Empty: the engine has no such variable.
struct Engine {
  std::string_view name;
  std::string_view rank;
  /// True if the rank's variable holds a host name that ends in "-RANK".
  bool is_end_of_name = false;
  std::string_view ranks;  ///< The number of ranks.
  std::string_view first;  ///< The value of `rank` in the first process; ranks count from there.
  std::string_view last;   ///< The value of `rank` in the last process.
  std::string_view step;   ///< Difference between consecutive values of `rank`.
  std::string_view host;   ///< The host of rank 0.
  std::string_view needs;  ///< Another variable that must be set for this engine to be recognised.
  /// The number of processes that see the same rank. It must be 1.
  std::string_view alike;
};

/// The table. If one engine runs inside another's job, the inner one comes first.
const std::vector<Engine>& engines();

/// The value of an environment variable; nullopt if it is unset or empty.
using Variables = std::function<std::optional<std::string>(std::string_view name)>;

/// The variables of this process.
Variables own_variables();

/// The values that one engine's variables give.
struct EngineReading {
  std::string engine;
  std::vector<std::pair<std::string, std::string>> variables;  ///< The engine's variables that are
                                                               ///< set, printable.
  std::vector<std::string> unset;  ///< The engine's variables that are not set.
  std::optional<std::size_t> rank;
  std::optional<std::size_t> ranks;
  std::string host;   ///< Host of rank 0; empty: not known.
  Problems problems;  ///< Why rank and ranks cannot be used.
};

/// The readings of all engines that seem to have started this process, in the order of the table.
std::vector<EngineReading> read_engines(const Variables& variables);

/// The reading to use; null if there is none. This is the first one, but an engine that reports a
/// single process yields to one that has started more.
const EngineReading* chosen(const std::vector<EngineReading>& readings);

/// The place of a peer in a cohort.
struct CohortPlace {
  std::size_t rank = 0;
  std::size_t ranks = 1;
  std::string host;  ///< Host of rank 0, according to the engine; empty: not known.
};

/// Finds the place: from `rank` and `ranks` if given, otherwise from the chosen engine. `place` is
/// valid only if there are no problems.
Problems find_place(const std::vector<EngineReading>& readings, std::optional<std::size_t> rank,
                    std::optional<std::size_t> ranks, CohortPlace& place);

}  // namespace gv
