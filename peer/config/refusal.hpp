// Prints messages for people at a terminal, mostly a command's problems.
#pragma once

#include <cstdio>
#include <string_view>

#include "base/problems.hpp"

namespace gv {

/// Prints and flushes a text. If the reader of the output has gone away, the text is lost and the
/// program continues, provided that it ignores SIGPIPE.
void say(std::FILE* to, std::string_view text);

/// Prints the problems to stderr, one on each line.
void print(const Problems& problems);

/// Prints the problems and returns the command's exit code.
int fail(const Problems& problems);

}  // namespace gv
