// Checks the messages of a ballot without regard to the receiver's state.
#pragma once

#include <string>

#include "consensus/generation/planner.hpp"
#include "consensus/message/message.hpp"

namespace gv {

/// Checks a Propose, Promise, Install, EndGeneration or Refusals from `from` against the rules for
/// all ballots and the run's own settings, which `planner` knows. Returns a sentence without a full
/// stop; empty if the message obeys the rules or is of another type. An honest peer never breaks
/// them, so a message that does counts against its sender.
std::string unsoundness(PeerId from, const Message& message, const GenerationPlanner& planner);

}  // namespace gv
