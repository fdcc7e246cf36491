// What is unsound about a message of a ballot, whatever the state of its receiver.
#pragma once

#include <string>

#include "consensus/generation/planner.hpp"
#include "consensus/message/message.hpp"

namespace gv {

/// Judges a Propose, Promise, Install, EndGeneration or Refusals from `from` before any part
/// believes it: by rules that hold for every ballot, and by the run's own settings, which `planner`
/// knows. A sentence without a full stop; empty if the message is sound or another one. A sound
/// peer never sends an unsound message, so one speaks against its sender.
std::string unsoundness(PeerId from, const Message& message, const GenerationPlanner& planner);

}  // namespace gv
