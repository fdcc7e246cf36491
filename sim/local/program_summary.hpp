// The end of a launched run whose peers are parts of a program of the user's.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "sim/local/fault_report.hpp"
#include "sim/local/summary.hpp"

namespace gv {

/// Prints how each program ended, with its peer's steps and mean loss, and how many peers have
/// written the same final model; writes that to `<folder>/summary.json`. Only the program could
/// evaluate its model.
void print_program_summary(const std::filesystem::path& folder,
                           const std::vector<PeerOutcome>& outcomes,
                           const std::optional<FaultReport>& faults, double wall_s);

}  // namespace gv
