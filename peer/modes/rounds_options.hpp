// What rounds of mixing are told: the rule, and how many steps a round has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory_resource>

#include "consensus/mixing/mix_rule.hpp"
#include "consensus/ring/agreement.hpp"

namespace gv {

/// How a swarm mixes with neighbours.
struct RoundsOptions {
  MixRule rule;
  std::uint64_t period = 1;  ///< Local steps of a round.
  /// Whoever is so many rounds behind when an epoch begins is sent a model.
  std::uint64_t catch_up_rounds = 64;
  std::size_t state_elements = 0;  ///< Parameters and what the optimiser keeps.
  std::uint32_t batch = 64;        ///< Samples of a step.
  RingAgreement::Options agreement;
  /// Where states that are sent live; not owned, outlives the mode and whatever it sends.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
};

}  // namespace gv
