// Runs one drawn world with the sound core, and succeeds if every invariant holds. A mutant runs
// this program for the world that shows its fault: an invariant that the sound core breaks there,
// too, proves nothing. The arguments are the seed and the kinds of the world.
#include <cstdio>
#include <cstdlib>
#include <span>

#include "sim/virtual/swarm.hpp"
#include "tests/sim/mutants/drawn.hpp"

int main(int argc, char** argv) {
  if (argc < 2) return 2;
  const auto arguments = std::span(argv, static_cast<std::size_t>(argc));
  const auto world =
      gv::draw_mutant_world(std::strtoull(arguments[1], nullptr, 10), arguments.subspan(2));
  if (!world) return 2;
  const auto violation = gv::run_world(*world).violation;
  if (!violation) {
    std::printf("the sound core keeps every invariant there\n");
    return 0;
  }
  std::printf("the sound core breaks an invariant there, too: \"%s\": %s\n",
              violation->invariant.c_str(), violation->what.c_str());
  return 1;
}
