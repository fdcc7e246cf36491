// Prints a broken invariant and aborts.
#include "consensus/base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace gv {

void check_failed(std::string_view what, std::source_location where) {
  std::fprintf(stderr, "%s:%u: broken invariant in %s: %.*s\n", where.file_name(), where.line(),
               where.function_name(), static_cast<int>(what.size()), what.data());
  std::abort();
}

}  // namespace gv
