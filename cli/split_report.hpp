// Ways for peers of different speeds to share a model's layers, as text and JSON.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "cli/pins.hpp"
#include "consensus/split/split_plan.hpp"
#include "peer/config/split_layers.hpp"

namespace gv {

/// Everything that the report says about a model and the peers of a file.
struct SplitReport {
  std::string config;  ///< Names of the two files.
  std::string peers_file;
  std::vector<ModelPiece> pieces;
  SplitQuestion question;
  NamedPins pins;                  ///< All pins of the config, also of peers not in the file.
  std::vector<SplitPlan> best;     ///< The best and the second best plan.
  std::vector<SplitPlan> samples;  ///< The best that shares samples alone; empty if none fits.
  std::vector<SplitPlan> stages;   ///< The best with stages of whole layers; empty if none fits.
  std::vector<SplitPlan> groups;   ///< The best whose stages groups share; empty if none fits.
};

/// True if this version can train as in the plan: as a pipeline does with or without groups, or by
/// sharing samples alone among all peers.
bool can_run(const SplitPlan& plan);

/// The settings with which this version runs the plan, as TOML.
std::string settings_of(const SplitReport& report, const SplitPlan& plan);

std::string to_text(const SplitReport& report);
std::string to_json(const SplitReport& report);

}  // namespace gv
