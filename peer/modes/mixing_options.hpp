// Options of mode `mixing`: the rule, and how many steps a round has.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory_resource>
#include <string_view>

#include "base/problems.hpp"
#include "consensus/generation/agreement.hpp"
#include "consensus/mixing/mix_rule.hpp"
#include "peer/modes/allreduce_options.hpp"

namespace gv {

/// Rule and period read from a settings revision while a swarm runs.
struct SwitchedMixing {
  MixRule rule;
  std::uint64_t period = 1;
  Problems problems;  ///< If there are any, the swarm cannot use the settings.
};

/// How a swarm mixes with neighbours.
struct MixingOptions {
  MixRule rule;
  std::uint64_t period = 1;  ///< Local steps of a round.
  /// A peer this many rounds behind when a generation begins downloads a model.
  std::uint64_t catch_up_rounds = 64;
  std::size_t state_elements = 0;  ///< Parameters and the optimiser's state.
  std::uint32_t batch = 64;        ///< Samples of a step.
  bool is_leased = false;  ///< The samples of a round are consecutive in an order that all share.
  Agreement::Options agreement;
  AllReduceOptions mean;  ///< Where the budget is the swarm's: how the common end is computed.
  /// Reads the settings of a settings revision. Empty: `rule` and `period` never change.
  std::function<SwitchedMixing(std::string_view settings)> read_revision;
  SettingsRevision revision;  ///< A resumed peer's, which overrides `rule` and `period`.
  bool tells_rule = false;  ///< The replica does not know the rule yet, and the first job tells it.
  /// Memory of states that are sent. Not owned; must outlive the mode and its messages.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
};

}  // namespace gv
