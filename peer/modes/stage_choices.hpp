// The choices about the stages of a pipeline: how replicas agree, and how peers get other stages.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/names.hpp"

namespace gv {

/// How the replicas of one stage agree.
enum class StageConsensus : std::uint8_t {
  allreduce,  ///< Sum their gradients in every run, so all have the same bits.
  gossip,     ///< Each makes its own steps, and pairs average parameters.
  mixing,     ///< Each makes its own steps, and all mix by a rule.
};

inline constexpr auto stage_consensus_names =
    names_of<StageConsensus>({"allreduce", "gossip", "mixing"});
inline constexpr auto stage_consensuses = stage_consensus_names.kinds();
constexpr std::string_view to_string(StageConsensus kind) { return stage_consensus_names[kind]; }

/// How peers get other stages and groups when a ballot knows their speeds.
enum class StagePlanKind : std::uint8_t {
  steady,    ///< One peer at a time moves to the slowest stage; groups are as large as they may be.
  automatic  ///< All take up the layout with the shortest predicted step.
};

inline constexpr auto stage_plan_names = names_of<StagePlanKind>({"steady", "auto"});
inline constexpr auto stage_plan_kinds = stage_plan_names.kinds();
constexpr std::string_view to_string(StagePlanKind kind) { return stage_plan_names[kind]; }

}  // namespace gv
