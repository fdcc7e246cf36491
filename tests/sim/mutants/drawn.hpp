// The drawn worlds in which a mutant is looked for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "sim/virtual/swarm.hpp"

namespace gv {

/// The world of the seed; nullopt if it is left out. Of `kinds`, "pipelines" and "rounds" turn
/// every world into one of that kind, and "gossip" leaves out all others. "hostile" makes some
/// peers hostile, with "tickets" peers join by tickets and are revoked, and with "switching" swarms
/// switch to other modes.
inline std::optional<DrawnWorld> draw_mutant_world(std::uint64_t seed, std::span<char*> kinds) {
  DrawnWorld world = draw_world(seed);
  for (const std::string_view which : kinds) {
    if (which == "gossip" && world.config.run.mode != ModeKind::gossip) return std::nullopt;
    if (which == "pipelines") world = as_pipeline(world);
    if (which == "rounds") world = as_mixing(world);
    if (which == "hostile") world = as_hostile(world);
    if (which == "tickets") world = as_tickets(world);
    if (which == "switching") world = as_switching(world);
  }
  return world;
}

}  // namespace gv
