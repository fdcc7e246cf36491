// The command by which a running peer is told to switch its swarm to other settings.
#pragma once

#include <string>

#include "peer/node/node.hpp"

namespace gv {

/// The command for a peer's socket that makes all go by these settings.
std::string switch_command_text(const std::string& settings);

/// What a peer makes of a command. The answer is JSON, with "settings revision" or "problem".
std::string answer_command(const std::string& command, Node& node, Time now, NodeEffects& out);

}  // namespace gv
