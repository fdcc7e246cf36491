// What rounds of mixing are told: the rule, and how many steps a round has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory_resource>
#include <string_view>

#include "base/problems.hpp"
#include "consensus/generation/agreement.hpp"
#include "consensus/mixing/mix_rule.hpp"

namespace gv {

/// What settings that come while a swarm runs make of its rounds.
struct SwitchedMixing {
  MixRule rule;
  std::uint64_t period = 1;
  Problems problems;  ///< If there are any, the swarm cannot go by them.
};

/// How a swarm mixes with neighbours.
struct MixingOptions {
  MixRule rule;
  std::uint64_t period = 1;  ///< Local steps of a round.
  /// Whoever is so many rounds behind when a generation begins is sent a model.
  std::uint64_t catch_up_rounds = 64;
  std::size_t state_elements = 0;  ///< Parameters and what the optimiser keeps.
  std::uint32_t batch = 64;        ///< Samples of a step.
  Agreement::Options agreement;
  /// Reads the settings of a settings revision. Empty: peers go by `rule` for good.
  std::function<SwitchedMixing(std::string_view settings)> read_revision;
  SettingsRevision revision;  ///< A resumed peer may have one, which overrides `rule` and `period`.
  /// Where states that are sent live; not owned, outlives the mode and whatever it sends.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
};

}  // namespace gv
