// Prints messages for people at a terminal, above all a command's problems.
#pragma once

#include <cstdio>
#include <string_view>

#include "base/problems.hpp"

namespace gv {

/// Prints and flushes a text. It is no error if the reader has gone away: the program continues
/// without it, provided that it ignores SIGPIPE.
void say(std::FILE* to, std::string_view text);

/// Prints the problems to stderr, one on each line.
void print(const Problems& problems);

/// Prints the problems and returns the command's exit code.
int fail(const Problems& problems);

}  // namespace gv
