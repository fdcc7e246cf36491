// Prints what people at a terminal should know, a command's problems above all.
#pragma once

#include <cstdio>
#include <string_view>

#include "base/problems.hpp"

namespace gv {

/// Prints a text at once. A reader that has gone away is no failure: what runs goes on without it,
/// if the process ignores SIGPIPE.
void say(std::FILE* to, std::string_view text);

/// One line for each, on stderr.
void print(const Problems& problems);

/// Prints the problems, and returns the exit code of the command.
int fail(const Problems& problems);

}  // namespace gv
