// Engines that start many processes (Slurm, MPI, torchrun, Kubernetes), and the environment
// variables in which they pass ranks.
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

/// A row of the table of engines: the environment variables that give a process its rank and the
/// number of ranks. An empty name means that the engine has no such variable.
struct Engine {
  std::string_view name;
  std::string_view rank;
  /// True if the rank's variable holds a host name that ends in "-RANK".
  bool is_end_of_name = false;
  std::string_view ranks;  ///< The variable with the number of ranks.
  /// The variable with the first process's value of `rank`; ranks count from this value.
  std::string_view first;
  std::string_view last;  ///< The variable with the last process's value of `rank`.
  /// The variable with the difference between consecutive values of `rank`.
  std::string_view step;
  std::string_view host;   ///< The variable with the host of rank 0.
  std::string_view needs;  ///< Another variable that must be set for this engine to be recognised.
  /// The variable with the number of processes that see the same rank. It must be 1.
  std::string_view alike;
};

/// Returns the table of engines. If one engine runs inside another's job, the inner one comes
/// first.
const std::vector<Engine>& engines();

/// Returns the value of an environment variable; nullopt if it is unset or empty.
using Variables = std::function<std::optional<std::string>(std::string_view name)>;

/// Returns a function that reads the environment variables of this process.
Variables own_variables();

/// The values read from one engine's variables.
struct EngineReading {
  std::string engine;
  /// The variables that are set, with printable values.
  std::vector<std::pair<std::string, std::string>> variables;
  std::vector<std::string> unset;  ///< The engine's variables that are not set.
  std::optional<std::size_t> rank;
  std::optional<std::size_t> ranks;
  std::string host;   ///< Host of rank 0; empty if unknown.
  Problems problems;  ///< Why rank and ranks cannot be used.
};

/// Returns the readings of all engines that may have started this process, in the table's order.
std::vector<EngineReading> read_engines(const Variables& variables);

/// Returns the reading to use; null if there is none. This is the first one whose `ranks` is not 1
/// or, if there is no such reading, the first of all.
const EngineReading* chosen(const std::vector<EngineReading>& readings);

/// A peer's rank in a cohort, the number of ranks, and the host of rank 0.
struct CohortPlace {
  std::size_t rank = 0;
  std::size_t ranks = 1;
  std::string host;  ///< Host of rank 0, according to the engine; empty if unknown.
};

/// Finds the place from `rank` and `ranks` if they are given, otherwise from the chosen engine.
/// `place` is valid only if there are no problems.
Problems find_place(const std::vector<EngineReading>& readings, std::optional<std::size_t> rank,
                    std::optional<std::size_t> ranks, CohortPlace& place);

}  // namespace gv
