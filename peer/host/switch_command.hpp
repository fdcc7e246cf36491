// The command that makes a running peer switch its swarm to other settings.
#pragma once

#include <string>

#include "peer/node/node.hpp"

namespace gv {

/// Returns the command for a peer's socket that switches all peers to these settings.
std::string switch_command_text(const std::string& settings);

/// Carries out the command. Returns the answer as JSON with "settings_revision" or "problem".
std::string answer_command(const std::string& command, Node& node, Time now, NodeEffects& out);

}  // namespace gv
