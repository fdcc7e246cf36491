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
  fixed,  ///< Replicas take turns. If all stages have the same number of replicas, these form fixed
          ///< chains.
  /// Each replica gets as many micro-batches as with `fixed`, but in an order that is random for
  /// each stage and run.
  random,
  throughput,  ///< Each replica gets a share in proportion to its speed. The shares are spread
               ///< evenly.
};

inline constexpr auto router_names = names_of<RouterKind>({"fixed", "random", "throughput"});
inline constexpr auto router_kinds = router_names.kinds();
constexpr std::string_view to_string(RouterKind kind) { return router_names[kind]; }

/// Routes micro-batches through the stages. replicas[s] are the workers of stage s, never empty.
/// `speeds` holds the speed of each worker by its number, 0 if unknown. `draws` must be the same at
/// all peers that compute the routes, and must differ between runs. Random routes also keep the
/// replicas of a stage similar, because each replica gets gradients from many replicas of the next
/// stage (NoLoCo, 2025). Routes by throughput keep slow peers from holding up fast ones (SWARM,
/// Ryabinin 2023).
Routes make_routes(RouterKind kind, std::span<const std::vector<std::uint32_t>> replicas,
                   std::size_t micro_batches, std::span<const double> speeds, Rng draws);

/// Routes in the form that this kind of schedule needs. pipedream and 2bw need whole chains, so
/// surplus replicas of a stage are idle. With chimera, every other micro-batch passes the workers
/// in the opposite order. Half of the workers that carry a stage and its mirror image serve each
/// direction.
Routes make_routes(PipelineKind schedule, RouterKind kind,
                   std::span<const std::vector<std::uint32_t>> replicas, std::size_t micro_batches,
                   std::span<const double> speeds, Rng draws);

}  // namespace gv
