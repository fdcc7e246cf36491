// Prints lines for people.
#include "peer/config/refusal.hpp"

#include <cstdio>

#include "base/printable.hpp"

namespace gv {

void say(std::FILE* to, std::string_view text) {
  // Does not use fmt::print, which throws if the reader has gone away.
  std::fwrite(text.data(), 1, text.size(), to);
  std::fflush(to);
}

void print(const Problems& problems) {
  // A problem may quote a config that came from another peer.
  for (const Problem& problem : problems) say(stderr, printable(to_string(problem)) + "\n");
}

int fail(const Problems& problems) {
  print(problems);
  return 2;
}

}  // namespace gv
