// Checks the messages of a ballot without regard to the receiver's state.
#pragma once

#include <string>
#include <vector>

#include "consensus/generation/planner.hpp"
#include "consensus/message/message.hpp"

namespace gv {

/// Checks a Propose, Promise, Install, EndGeneration or Refusals from `from` against the rules for
/// all ballots and the run's own settings, which `planner` knows. Returns a sentence without a full
/// stop; empty if the message obeys the rules or is of another type. An honest peer never breaks
/// these rules, so a message that breaks one counts against its sender.
std::string unsoundness(PeerId from, const Message& message, const GenerationPlanner& planner);

/// True if `givers` contains each peer from which `self` would download a state in this generation.
/// The generation must be sound.
bool has_sources_among(const std::vector<PeerId>& givers, const Generation& generation,
                       PeerId self);

}  // namespace gv
