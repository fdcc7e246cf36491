// Engines that start many processes (Slurm, MPI, torchrun, Kubernetes), and what they tell each of
// its place.
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
/// rank, and of how many. Empty: the engine has no such variable.
struct Engine {
  std::string_view name;
  std::string_view rank;
  /// The variable of the rank holds a host name that ends in "-RANK".
  bool is_end_of_name = false;
  std::string_view ranks;  ///< Their number.
  std::string_view first;  ///< The value of `rank` at the first; ranks count from there.
  std::string_view last;   ///< The value of `rank` at the last.
  std::string_view step;   ///< Distance between values of `rank`.
  std::string_view host;   ///< The host of rank 0.
  std::string_view needs;  ///< Another variable that must be set, or this is not the engine.
  /// A number of processes that all see the same rank. It must be 1.
  std::string_view alike;
};

/// The table. An engine that runs inside another one's job comes first.
const std::vector<Engine>& engines();

/// The value of an environment variable; nullopt if it is unset or empty.
using Variables = std::function<std::optional<std::string>(std::string_view name)>;

/// The variables of this process.
Variables own_variables();

/// What the variables of one engine give.
struct EngineReading {
  std::string engine;
  std::vector<std::pair<std::string, std::string>> variables;  ///< Those that are set, printable.
  std::vector<std::string> unset;                              ///< Those that are not.
  std::optional<std::size_t> rank;
  std::optional<std::size_t> ranks;
  std::string host;   ///< Of rank 0; empty: not known.
  Problems problems;  ///< Why rank and ranks cannot be used.
};

/// The readings of all engines that seem to have started this process, in the order of the table.
std::vector<EngineReading> read_engines(const Variables& variables);

/// The reading that counts; null if there is none. The first one, but an engine that says it has
/// started a single process gives way to one that has started more.
const EngineReading* chosen(const std::vector<EngineReading>& readings);

/// The place of a peer in a cohort.
struct CohortPlace {
  std::size_t rank = 0;
  std::size_t ranks = 1;
  std::string host;  ///< Of rank 0, as the engine says; empty: not known.
};

/// Finds the place: `rank` and `ranks` if given, else what the engine that counts says. `place` is
/// valid only if there are no problems.
Problems find_place(const std::vector<EngineReading>& readings, std::optional<std::size_t> rank,
                    std::optional<std::size_t> ranks, CohortPlace& place);

}  // namespace gv
