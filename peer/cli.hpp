// The command line: parses arguments, checks them, and calls what does the work.
#pragma once

namespace gv {

/// Runs `grapevine ARGS`. Returns the exit code: 0 clean, 1 the machine or a peer failed, 2
/// something the operator has to mend.
int run_command_line(int argc, char** argv);

}  // namespace gv
