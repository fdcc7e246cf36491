// The exit codes of the program and their texts.
#pragma once

#include <span>
#include <string_view>

namespace gv {

inline constexpr int exit_clean = 0;
inline constexpr int exit_failed = 1;   ///< The machine or a peer failed.
inline constexpr int exit_refused = 2;  ///< The operator has to correct something.

/// Exit codes of `grapevine sim` with --swarm or --check, which check the invariants of virtual
/// runs.
inline constexpr int swarm_unsafe = 3;   ///< An invariant was broken.
inline constexpr int swarm_stuck = 4;    ///< A liveness invariant failed after the world healed.
inline constexpr int swarm_crashed = 5;  ///< The program itself failed.

/// Exit code of a peer that received a second SIGINT or SIGTERM. Shells use this code, 128 plus the
/// number of SIGINT, for Ctrl-C.
inline constexpr int exit_interrupted = 130;

/// The texts of one exit code, like FactInfo for a fact.
struct ExitCodeInfo {
  int code = 0;
  std::string_view sentence;  ///< What happened.
  std::string_view meaning;   ///< What the code says about the run, and what the other peers do.
  std::string_view remedy;    ///< What the user can do; empty if there is nothing to do.
};

/// The texts of every exit code, in ascending order of the codes.
std::span<const ExitCodeInfo> exit_code_infos();

}  // namespace gv
