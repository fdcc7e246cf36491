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
  fixed,   ///< Replicas take turns. If all stages have equally many, this gives fixed chains.
  random,  ///< Each replica gets as many as with turns, in a random order for each stage and run.
  throughput,  ///< Each replica gets a share in proportion to its speed, spread evenly.
};

inline constexpr auto router_names = names_of<RouterKind>({"fixed", "random", "throughput"});
inline constexpr auto router_kinds = router_names.kinds();
constexpr std::string_view to_string(RouterKind kind) { return router_names[kind]; }

/// Routes micro-batches through the stages. replicas[s] are the workers of stage s, never empty;
/// `speeds` are those of all workers by number, 0 if unknown. `draws` must be the same at all peers
/// that compute the routes, and differ between runs. Random routes also mix the replicas of a
/// stage, because the gradients of each come from many replicas of the next stage (NoLoCo, 2025).
/// Routes by throughput keep slow peers from holding up fast ones (SWARM, Ryabinin 2023).
Routes make_routes(RouterKind kind, std::span<const std::vector<std::uint32_t>> replicas,
                   std::size_t micro_batches, std::span<const double> speeds, Rng draws);

/// Routes in the form that this kind of schedule needs. pipedream and 2bw need whole chains, so
/// extra replicas of some stages are idle. With chimera every other micro-batch passes the workers
/// in the opposite order; of the workers that carry a stage and its mirror image, one half serves
/// each direction.
Routes make_routes(PipelineKind schedule, RouterKind kind,
                   std::span<const std::vector<std::uint32_t>> replicas, std::size_t micro_batches,
                   std::span<const double> speeds, Rng draws);

}  // namespace gv
