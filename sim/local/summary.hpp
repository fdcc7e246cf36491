// The results of a finished run: its mean model, its worst peer and its cost.
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

/// A peer that has ended.
struct PeerOutcome {
  std::string name;
  std::filesystem::path folder;  ///< The folder with the peer's checkpoints and result.json.
  Ending ending;
  /// The text to print if the peer was ended by a fault, or by an interrupt before it began. Empty
  /// otherwise.
  std::string by_fault;
  std::uint64_t untold_bytes = 0;  ///< Bytes sent in incarnations that left no result.
};

/// Loads every peer's newest checkpoint, and evaluates each model and their mean on the test set.
/// Prints the summary and writes it to `<folder>/summary.json`. Writes the mean model, with the
/// config's text in it, to `<folder>/mean.safetensors`. With `faults`, counts exchanges and deaths
/// over all incarnations, and lists the injected faults. Returns false if no model could be
/// evaluated.
bool print_summary(const Config& config, const std::string& config_text,
                   const std::filesystem::path& folder, const std::vector<PeerOutcome>& outcomes,
                   const std::optional<FaultReport>& faults, double wall_s);

}  // namespace gv
