// Prints a command's problems.
#pragma once

#include "base/problems.hpp"

namespace gv {

/// One line for each, on stderr.
void print(const Problems& problems);

/// Prints the problems, and returns the exit code of the command.
int fail(const Problems& problems);

}  // namespace gv
