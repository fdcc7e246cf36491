// The names of the ways in which peers of a pipeline get other stages.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/names.hpp"

namespace gv {

/// How peers get other stages and groups when a ballot knows their speeds.
enum class StagePlanKind : std::uint8_t {
  steady,    ///< One peer at a time moves to the slowest stage; groups are as large as they may be.
  automatic  ///< All take up the layout with the shortest predicted step.
};

inline constexpr auto stage_plan_names = names_of<StagePlanKind>({"steady", "auto"});
inline constexpr auto stage_plan_kinds = stage_plan_names.kinds();
constexpr std::string_view to_string(StagePlanKind kind) { return stage_plan_names[kind]; }

}  // namespace gv
