// Runs random worlds with a broken core, and succeeds if a checker finds the fault in a world in
// which the sound core keeps every invariant. The arguments are the program with the sound core,
// the seed of the first world, the number of worlds, and the kinds of worlds as `grapevine sim
// --kind` takes them. "gossip" leaves out worlds that turn out to be in another mode.
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "sim/virtual/swarm.hpp"

namespace {

/// The command that runs the present world with the sound core, as words for exec.
std::vector<std::string> sound_command;
std::vector<char*> sound_words;

/// Replaces this process by the program with the sound core, which runs the present world.
void try_sound_core() {
  ::execv(sound_words.front(), sound_words.data());
  ::_exit(2);
}

/// A crash of the program also counts as a fault that was found.
void crash(int) {
  constexpr std::string_view text = "caught: it crashed\n";
  static_cast<void>(!::write(STDOUT_FILENO, text.data(), text.size()));
  try_sound_core();
}

void set_sound_command(const std::string& program, const std::string& seed,
                       const std::vector<std::string>& kinds) {
  sound_command = {program, "sim", "--swarm", "1", "--seed", seed};
  for (const std::string& kind : kinds) {
    sound_command.insert(sound_command.end(), {"--kind", kind});
  }
  sound_words.clear();
  for (std::string& word : sound_command) sound_words.push_back(word.data());
  sound_words.push_back(nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 4) return 2;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  const std::uint64_t first = std::strtoull(arguments[1].c_str(), nullptr, 10);
  const std::uint64_t worlds = std::strtoull(arguments[2].c_str(), nullptr, 10);
  std::vector<std::string> kinds(arguments.begin() + 3, arguments.end());
  const bool only_gossip = std::erase(kinds, "gossip") > 0;
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, crash);
  for (std::uint64_t seed = first; seed < first + worlds; ++seed) {
    if (only_gossip && gv::draw_world(seed).config.run.mode != gv::ModeKind::gossip) continue;
    set_sound_command(arguments[0], std::to_string(seed), kinds);
    const auto violation = gv::run_world(gv::draw_world(seed, kinds)).violation;
    if (!violation) continue;
    std::printf("caught in the world of seed %s: \"%s\": %s\n", std::to_string(seed).c_str(),
                violation->invariant.c_str(), violation->what.c_str());
    std::fflush(stdout);
    try_sound_core();
  }
  std::printf("not caught\n");
  return 1;
}
