// Options of mode `mixing`: the rule, and the number of steps in a round.
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

/// Rule and period from a settings revision, read while a swarm runs.
struct SwitchedMixing {
  MixRule rule;
  std::uint64_t period = 1;
  Problems problems;  ///< If there are any, the swarm cannot use these settings.
};

/// How a swarm mixes with neighbours.
struct MixingOptions {
  MixRule rule;
  std::uint64_t period = 1;  ///< Local steps of a round.
  /// A peer this many rounds behind when a generation begins downloads a model.
  std::uint64_t catch_up_rounds = 64;
  std::size_t state_elements = 0;  ///< Parameters and the optimiser's state.
  std::uint32_t batch = 64;        ///< Samples of a step.
  bool is_leased = false;  ///< True if the samples of a round are consecutive in an order that all
                           ///< peers share.
  Agreement::Options agreement;
  AllReduceOptions mean;  ///< With the swarm's budget: how the common end is computed.
  /// Reads the settings of a settings revision. Empty: `rule` and `period` never change.
  std::function<SwitchedMixing(std::string_view settings)> read_revision;
  SettingsRevision revision;  ///< The revision of a resumed peer, which overrides `rule` and
                              ///< `period`.
  bool tells_rule = false;    ///< True if the replica does not know the rule yet, so that the first
                              ///< job has to pass it on.
  /// Memory of states that are sent. Not owned; must outlive the mode and its messages.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
};

}  // namespace gv
