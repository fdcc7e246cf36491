// The command line: parses and checks arguments, and calls the command.
#pragma once

#include "peer/host/host.hpp"

namespace gv {

/// Runs `grapevine ARGS`. Returns the exit code: 0 clean, 1 the machine or a peer failed, 2
/// something the operator has to mend. `hooks` go into a peer that this process runs.
int run_command_line(int argc, char** argv, const HostHooks& hooks = {});

}  // namespace gv
