// Assertions that stay on in every build: a broken invariant is our error, so we print and abort.
#pragma once

#include <source_location>
#include <string_view>

namespace gv {

/// Prints `what` with the place it was called from to stderr and aborts the process.
[[noreturn]] void check_failed(std::string_view what, std::source_location where);

/// Aborts when `holds` is false. For invariants only: input from outside is refused, never checked.
inline void check(bool holds, std::string_view what,
                  std::source_location where = std::source_location::current()) {
  if (!holds) [[unlikely]]
    check_failed(what, where);
}

}  // namespace gv
