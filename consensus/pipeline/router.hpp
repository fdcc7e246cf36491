// Which replica of each stage carries which micro-batch.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/rng.hpp"
#include "consensus/pipeline/schedule.hpp"

namespace gv {

enum class RouterKind : std::uint8_t {
  fixed,       ///< The replicas of a stage take turns: with as many in each stage, fixed chains.
  random,      ///< Each as many as with turns, in an order drawn anew for every stage and run.
  throughput,  ///< As many as its speed allows, spread evenly.
};

inline constexpr std::array router_kinds = {RouterKind::fixed, RouterKind::random,
                                            RouterKind::throughput};

std::string_view to_string(RouterKind kind);
std::optional<RouterKind> router_named(std::string_view name);

/// Routes of `micro_batches` through stages with these replicas: replicas[s] are the workers of
/// stage s, never empty; `speeds` are those of all workers by number, 0 where unknown. `draws` is
/// the same for all who compute the routes and another for every run. Random routes mix replicas by
/// themselves, because the gradient of a stage then comes from many replicas of the next (NoLoCo,
/// 2025); routes by throughput keep slow peers from holding up fast ones (SWARM, Ryabinin 2023).
Routes make_routes(RouterKind kind, std::span<const std::vector<std::uint32_t>> replicas,
                   std::size_t micro_batches, std::span<const double> speeds, Rng draws);

/// The same as this kind of schedule needs them: pipedream and 2bw take whole chains alone, so that
/// replicas some stages have more of wait; of chimera's every other micro-batch takes the workers
/// from the last stage to the first, and those who carry a stage and its mirror image are one half
/// on the way down, the other on the way up.
Routes make_routes(PipelineKind schedule, RouterKind kind,
                   std::span<const std::vector<std::uint32_t>> replicas, std::size_t micro_batches,
                   std::span<const double> speeds, Rng draws);

}  // namespace gv
