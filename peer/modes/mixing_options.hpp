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

/// The rule and the period that a settings revision prescribes, read while the swarm runs.
struct SwitchedMixing {
  MixRule rule;
  std::uint64_t period = 1;
  Problems problems;  ///< If not empty, the swarm cannot use the settings.
};

/// How a swarm mixes with neighbours.
struct MixingOptions {
  MixRule rule;
  std::uint64_t period = 1;  ///< Number of local steps in a round.
  /// A peer that is this many rounds behind at the beginning of a generation downloads a model.
  std::uint64_t catch_up_rounds = 64;
  /// Number of floats in the parameters and the optimiser's state.
  std::size_t state_elements = 0;
  std::uint32_t batch = 64;  ///< Samples in one peer's step.
  /// True if a round's samples are consecutive in an order that all peers share.
  bool is_leased = false;
  Agreement::Options agreement;
  AllReduceOptions mean;  ///< How the common mean at the end of the swarm's budget is computed.
  /// Parses the settings in a revision. If this function is empty, `rule` and `period` never
  /// change.
  std::function<SwitchedMixing(std::string_view settings)> read_revision;
  /// The revision with which a peer resumes. It overrides `rule` and `period`.
  SettingsRevision revision;
  bool tells_rule = false;  ///< True if the first job has to pass the rule to the replica.
  /// Allocates the states that we send. Not owned; must outlive the mode and its messages.
  std::pmr::memory_resource* memory = std::pmr::get_default_resource();
};

}  // namespace gv
