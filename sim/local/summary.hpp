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

/// One peer after its end.
struct PeerOutcome {
  std::string name;
  std::filesystem::path folder;  ///< Holds its checkpoints and result.json.
  Ending ending;
  std::string by_fault;            ///< The end caused by a fault, for people; empty: none.
  std::uint64_t untold_bytes = 0;  ///< Bytes sent in incarnations without a result.
};

/// Loads every peer's newest checkpoint, evaluates each and their mean on the test set, prints the
/// summary and writes it to `<folder>/summary.json`, and the mean model to
/// `<folder>/mean.safetensors` with the config's text in it. With `faults`, exchanges and deaths
/// are those of all incarnations, and the summary lists injected faults. False when no model could
/// be evaluated.
bool print_summary(const Config& config, const std::string& config_text,
                   const std::filesystem::path& folder, const std::vector<PeerOutcome>& outcomes,
                   const std::optional<FaultReport>& faults, double wall_s);

}  // namespace gv
