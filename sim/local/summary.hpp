// The results of a finished run: the mean model, the worst peer and the cost.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "peer/config/config.hpp"
#include "sim/local/fault_report.hpp"
#include "sim/local/process.hpp"

namespace gv {

/// A peer after its end.
struct PeerOutcome {
  std::string name;
  std::filesystem::path folder;  ///< The folder with its checkpoints and result.json.
  Ending ending;
  std::string by_fault;            ///< How a fault ended it, for people. Empty if none did.
  std::uint64_t untold_bytes = 0;  ///< Bytes sent in incarnations that left no result.
};

/// Loads every peer's newest checkpoint, evaluates each model and their mean on the test set,
/// prints the summary and writes it to `<folder>/summary.json`, and writes the mean model, with the
/// config's text in it, to `<folder>/mean.safetensors`. With `faults`, exchanges and deaths are
/// counted over all incarnations, and the summary lists injected faults. Returns false if no model
/// could be evaluated.
bool print_summary(const Config& config, const std::string& config_text,
                   const std::filesystem::path& folder, const std::vector<PeerOutcome>& outcomes,
                   const std::optional<FaultReport>& faults, double wall_s);

}  // namespace gv
