// Choices for the stages of a pipeline: how replicas agree, and how stages are assigned to peers.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/names.hpp"

namespace gv {

/// How the replicas of one stage agree.
enum class StageConsensus : std::uint8_t {
  allreduce,  ///< They sum their gradients in every run, so their models have the same bits.
  gossip,     ///< Each makes steps of its own, and pairs average their parameters.
  mixing,     ///< Each makes steps of its own, and all of them mix by a rule.
};

inline constexpr auto stage_consensus_names =
    names_of<StageConsensus>({"allreduce", "gossip", "mixing"});
inline constexpr auto stage_consensuses = stage_consensus_names.kinds();
constexpr std::string_view to_string(StageConsensus kind) { return stage_consensus_names[kind]; }

/// How peers move to other stages and groups once a ballot knows their speeds.
enum class StagePlanKind : std::uint8_t {
  steady,    ///< One peer at a time moves, to the slowest stage. Groups are as large as possible.
  automatic  ///< All peers adopt the layout with the shortest predicted step.
};

inline constexpr auto stage_plan_names = names_of<StagePlanKind>({"steady", "auto"});
inline constexpr auto stage_plan_kinds = stage_plan_names.kinds();
constexpr std::string_view to_string(StagePlanKind kind) { return stage_plan_names[kind]; }

}  // namespace gv
