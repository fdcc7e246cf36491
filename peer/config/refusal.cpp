// Prints lines for people.
#include "peer/config/refusal.hpp"

#include <cstdio>

#include "base/printable.hpp"

namespace gv {

void say(std::FILE* to, std::string_view text) {
  // fmt::print would throw if the reader of the output has gone away.
  std::fwrite(text.data(), 1, text.size(), to);
  std::fflush(to);
}

void print(const Problems& problems) {
  // A problem may quote a config from another peer, so it is made safe to print.
  for (const Problem& problem : problems) say(stderr, printable(to_string(problem)) + "\n");
}

int fail(const Problems& problems) {
  print(problems);
  return 2;
}

}  // namespace gv
