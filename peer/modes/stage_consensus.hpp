// How the replicas of one stage of a pipeline agree.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace gv {

enum class StageConsensus : std::uint8_t {
  allreduce,  ///< Sum their gradients in every run, so all have the same bits.
  gossip,     ///< Each makes its own steps, and pairs average parameters.
  mixing,     ///< Each makes its own steps, and all mix by a rule.
};

/// The name in configs.
std::string_view to_string(StageConsensus consensus);

inline constexpr std::array stage_consensuses = {StageConsensus::allreduce, StageConsensus::gossip,
                                                 StageConsensus::mixing};

}  // namespace gv
