// The command line: parses and checks arguments, and calls the command.
#pragma once

#include "peer/host/host.hpp"

namespace gv {

/// Runs `grapevine ARGS`. Returns the exit code: 0 for success, 1 if the machine or a peer failed,
/// 2 if the operator has to fix something. `hooks` are passed to a peer that this process runs.
int run_command_line(int argc, char** argv, const HostHooks& hooks = {});

}  // namespace gv
