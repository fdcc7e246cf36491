// Prints the broken invariant and aborts.
#include "base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace gv {

void check_failed(std::string_view what, const char* file, int line) {
  std::fprintf(stderr, "%s:%d: broken invariant: %.*s\n", file, line, static_cast<int>(what.size()),
               what.data());
  std::abort();
}

}  // namespace gv
