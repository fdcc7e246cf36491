// Runs one scripted world with a broken core, and succeeds if a checker finds the fault. The
// arguments are the world's file and its seed.
#include <cstdio>
#include <cstdlib>
#include <exception>

#include "cli/simulate.hpp"
#include "sim/virtual/swarm.hpp"

int main(int argc, char** argv) try {
  if (argc != 3) return 2;
  const gv::CheckedWorld read = gv::read_world(argv[1], std::strtoull(argv[2], nullptr, 10));
  if (!read.problems.empty()) {
    std::fprintf(stderr, "%s\n", to_string(read.problems.front()).c_str());
    return 2;
  }
  const auto violation = gv::run_world(read.world).violation;
  if (!violation) {
    std::printf("not caught\n");
    return 1;
  }
  std::printf("caught: \"%s\": %s\n", violation->invariant.c_str(), violation->what.c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 2;
}
