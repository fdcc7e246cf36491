// Runs drawn worlds with a broken core, and succeeds if a checker finds the fault in a world in
// which the sound core keeps every invariant. The arguments are the program that runs a world with
// the sound core, the seed of the first world, the number of worlds, and the kinds of worlds.
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/virtual/swarm.hpp"
#include "tests/sim/mutants/drawn.hpp"

namespace {

/// The command that runs the present world with the sound core.
std::vector<char*> sound_command;

/// Becomes the program that runs the present world with the sound core.
void try_sound_core() {
  ::execv(sound_command.front(), sound_command.data());
  ::_exit(2);
}

/// A crash of the whole program also counts as found.
void crash(int) {
  constexpr std::string_view text = "caught: it crashed\n";
  static_cast<void>(!::write(STDOUT_FILENO, text.data(), text.size()));
  try_sound_core();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const auto arguments = std::span(argv, static_cast<std::size_t>(argc));
  const std::uint64_t first = std::strtoull(arguments[2], nullptr, 10);
  const std::uint64_t worlds = std::strtoull(arguments[3], nullptr, 10);
  const auto kinds = arguments.subspan(4);
  sound_command = {arguments[1], nullptr};
  sound_command.insert(sound_command.end(), kinds.begin(), kinds.end());
  sound_command.push_back(nullptr);
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, crash);
  for (std::uint64_t seed = first; seed < first + worlds; ++seed) {
    const auto world = gv::draw_mutant_world(seed, kinds);
    if (!world) continue;
    std::string number = std::to_string(seed);
    sound_command[1] = number.data();
    const auto violation = gv::run_world(*world).violation;
    if (!violation) continue;
    std::printf("caught in the world of seed %s: \"%s\": %s\n", number.c_str(),
                violation->invariant.c_str(), violation->what.c_str());
    std::fflush(stdout);
    try_sound_core();
  }
  std::printf("not caught\n");
  return 1;
}
