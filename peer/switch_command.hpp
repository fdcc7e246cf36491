// `grapevine switch`: the word that a running peer is given, what it answers, and the waiting for
// what comes of it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "peer/node.hpp"

namespace gv {

/// What `grapevine switch` was told.
struct SwitchArguments {
  std::filesystem::path folder;       ///< Of any peer of the swarm.
  std::string algorithm;              ///< Empty: only `settings`.
  std::vector<std::string> settings;  ///< As "rounds.gamma=0.2".
  double wait_s = 20;                 ///< For all to have agreed.
};

/// Tells the peer, and waits until its swarm goes by it. The exit code: 0, 1 if that has not
/// happened in time, 2 if it cannot.
int switch_command(const SwitchArguments& arguments);

/// The command for a peer's socket that makes all go by these settings.
std::string switch_command_text(const std::string& settings);

/// What a peer makes of a command. The answer is JSON, with "ruling" or "problem".
std::string answer_command(const std::string& command, Node& node, Time now, NodeEffects& out);

}  // namespace gv
