// Runs drawn worlds with a broken core: success is to find out that it is broken.
#include <cstdio>
#include <cstdlib>

#include "sim/virtual/swarm.hpp"

int main(int argc, char** argv) {
  gv::SwarmOptions options;
  options.worlds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
  const int code = gv::run_swarm(options);
  const bool caught = code == gv::swarm_unsafe || code == gv::swarm_stuck;
  std::printf("%s\n", caught ? "caught" : "not caught");
  return caught ? 0 : 1;
}
