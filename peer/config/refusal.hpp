// What a command says of what cannot be.
#pragma once

#include "base/problems.hpp"

namespace gv {

/// A line each, on stderr.
void print(const Problems& problems);

/// Prints them, and returns the exit code of a command that was given them.
int fail(const Problems& problems);

}  // namespace gv
