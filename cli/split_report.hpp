// Ways for peers of different speeds to share a model's layers, as text and JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "cli/pins.hpp"
#include "consensus/pipeline/schedule.hpp"
#include "consensus/split/split_plan.hpp"
#include "peer/config/split_layers.hpp"

namespace gv {

/// Everything that the report says about a model and the peers of a file.
struct SplitReport {
  std::string config;  ///< Name of the config file.
  std::string config_text;
  PipelineKind schedule = PipelineKind::one_f_one_b;  ///< The config's schedule.
  std::uint32_t group = 1;                            ///< The config's size of groups.
  std::string peers_file;
  std::vector<ModelPiece> pieces;
  SplitQuestion question;
  NamedPins pins;                  ///< All pins in the config, including those of peers outside the
                                   ///< file.
  std::vector<SplitPlan> best;     ///< The best and the second-best plan overall.
  std::vector<SplitPlan> samples;  ///< The best plans that share only samples; empty if none fits.
  std::vector<SplitPlan> stages;   ///< The best plans with stages of whole layers; may be empty.
  std::vector<SplitPlan> groups;   ///< The best plans whose groups share stages; may be empty.
};

/// True if this version can train as fast as the plan says: as a pipeline with or without groups,
/// or with all peers sharing only samples. A pipeline also needs memory for the copies that it
/// keeps while it runs.
bool can_run(const SplitReport& report, const SplitPlan& plan);

std::string to_text(const SplitReport& report);
std::string to_json(const SplitReport& report);

}  // namespace gv
