// Assertions that stay on in every build: a broken invariant is our error, so we print and abort.
#pragma once

#include <string_view>

namespace gv {

/// Prints `what` with the place it was called from to stderr and aborts the process.
[[noreturn]] void check_failed(std::string_view what, const char* file, int line);

/// Aborts when `holds` is false. (The built-ins: Debian's clang has no std::source_location.) For
/// invariants only: input from outside is refused, never checked.
inline void check(bool holds, std::string_view what, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  if (!holds) [[unlikely]]
    check_failed(what, file, line);
}

}  // namespace gv
