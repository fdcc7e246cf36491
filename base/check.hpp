// Assertions that stay on in every build. A broken invariant is our own bug, so we print it and
// abort.
#pragma once

#include <string_view>

namespace gv {

/// Prints `what` and the place of the call to stderr, and aborts the process.
[[noreturn]] void check_failed(std::string_view what, const char* file, int line);

/// Aborts if `holds` is false. Use it only for invariants; bad input from outside must be refused
/// instead. (It uses compiler built-ins because Debian's clang has no std::source_location.)
inline void check(bool holds, std::string_view what, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (!holds) [[unlikely]]
    check_failed(what, file, line);
}

}  // namespace gv
