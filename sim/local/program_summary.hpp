// The summary of a launched run in which each peer is part of a user's program.
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "sim/local/fault_report.hpp"
#include "sim/local/summary.hpp"

namespace gv {

/// Prints how each program ended, with its peer's steps and mean loss, and how many peers have
/// written the same final model. Writes the same figures to `<folder>/summary.json`. Does not
/// evaluate the models, which only the program itself can do.
void print_program_summary(const std::filesystem::path& folder,
                           const std::vector<PeerOutcome>& outcomes,
                           const std::optional<FaultReport>& faults, double wall_s);

}  // namespace gv
