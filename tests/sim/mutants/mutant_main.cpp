// Runs drawn worlds with a broken core, and succeeds if a checker finds the fault. The arguments
// are the seed of the first world, the number of worlds, and which they are: "pipelines", "rounds"
// and "leased" turn every world into one of that kind, and "gossip" leaves out all others.
// "hostile" makes some peers hostile, with "tickets" peers join by tickets and are revoked, and
// with "switching" swarms switch to other modes.
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "sim/virtual/swarm.hpp"

namespace {

/// The world of the seed; nullopt if it is left out.
std::optional<gv::DrawnWorld> draw(std::uint64_t seed, int kinds, char** kind) {
  gv::DrawnWorld world = gv::draw_world(seed);
  for (int i = 0; i < kinds; ++i) {
    const std::string_view which = kind[i];
    if (which == "gossip" && world.config.run.mode != gv::ModeKind::gossip) return std::nullopt;
    if (which == "pipelines") world = gv::as_pipeline(world);
    if (which == "rounds") world = gv::as_mixing(world);
    if (which == "hostile") world = gv::as_hostile(world);
    if (which == "tickets") world = gv::as_tickets(world);
    if (which == "switching") world = gv::as_switching(world);
  }
  return world;
}

/// A crash of the whole program also counts as found.
void crash(int) {
  constexpr std::string_view text = "caught: it crashed\n";
  static_cast<void>(!::write(STDOUT_FILENO, text.data(), text.size()));
  ::_exit(0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const std::uint64_t first = std::strtoull(argv[1], nullptr, 10);
  const std::uint64_t worlds = std::strtoull(argv[2], nullptr, 10);
  for (const int signal : {SIGABRT, SIGSEGV, SIGBUS, SIGFPE}) std::signal(signal, crash);
  for (std::uint64_t seed = first; seed < first + worlds; ++seed) {
    const auto world = draw(seed, argc - 3, argv + 3);
    if (!world) continue;
    const auto violation = gv::run_world(*world).violation;
    if (!violation) continue;
    std::printf("caught in the world of seed %llu: \"%s\": %s\n",
                static_cast<unsigned long long>(seed), violation->invariant.c_str(),
                violation->what.c_str());
    return 0;
  }
  std::printf("not caught\n");
  return 1;
}
