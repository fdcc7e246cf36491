// Lines on stderr.
#include "peer/config/refusal.hpp"

#include <fmt/format.h>

#include <cstdio>

namespace gv {

void print(const Problems& problems) {
  for (const Problem& problem : problems) fmt::print(stderr, "{}\n", to_string(problem));
}

int fail(const Problems& problems) {
  print(problems);
  return 2;
}

}  // namespace gv
