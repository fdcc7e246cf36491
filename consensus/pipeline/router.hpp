// Routes each micro-batch through one replica of every stage.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "base/names.hpp"
#include "base/rng.hpp"
#include "consensus/pipeline/schedule.hpp"

namespace gv {

enum class RouterKind : std::uint8_t {
  fixed,       ///< A stage's replicas take turns; equally many in each stage form fixed chains.
  random,      ///< As many for each replica as with turns, in an order drawn per stage and run.
  throughput,  ///< As many for each replica as its speed allows, spread evenly.
};

inline constexpr auto router_names = names_of<RouterKind>({"fixed", "random", "throughput"});
inline constexpr auto router_kinds = router_names.kinds();
constexpr std::string_view to_string(RouterKind kind) { return router_names[kind]; }

/// Routes of `micro_batches` through stages with these replicas: replicas[s] are the workers of
/// stage s, never empty; `speeds` are those of all workers by number, 0 if unknown. `draws` is the
/// same at all peers that compute the routes, and differs between runs. Random routes mix the
/// replicas of a stage implicitly, because its gradient then comes from many replicas of the next
/// (NoLoCo, 2025). Routes by throughput keep slow peers from holding up fast ones (SWARM, Ryabinin
/// 2023).
Routes make_routes(RouterKind kind, std::span<const std::vector<std::uint32_t>> replicas,
                   std::size_t micro_batches, std::span<const double> speeds, Rng draws);

/// The same in the form that this kind of schedule needs. pipedream and 2bw need whole chains, so
/// extra replicas of some stages are idle. With chimera every other micro-batch takes the workers
/// in the opposite order; of the workers that carry a stage and its mirror image, one half serves
/// the way down and the other half the way up.
Routes make_routes(PipelineKind schedule, RouterKind kind,
                   std::span<const std::vector<std::uint32_t>> replicas, std::size_t micro_batches,
                   std::span<const double> speeds, Rng draws);

}  // namespace gv
