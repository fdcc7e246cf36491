// The command line: parses arguments, checks them, and calls what does the work.
#pragma once

#include "peer/host.hpp"

namespace gv {

/// Runs `grapevine ARGS`. Returns the exit code: 0 clean, 1 the machine or a peer failed, 2
/// something the operator has to mend. `watcher` sees what a peer run by this process does.
int run_command_line(int argc, char** argv, const EffectsWatcher& watcher = {});

}  // namespace gv
