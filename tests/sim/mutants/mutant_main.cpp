// Runs drawn worlds with a broken core: success is to find out that it is broken. With "pipelines"
// or "rounds" all are of that kind.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "sim/virtual/swarm.hpp"

namespace {

gv::DrawnWorld draw(std::uint64_t seed, std::string_view which) {
  gv::DrawnWorld world = gv::draw_world(seed);
  if (which == "pipelines") return gv::as_pipeline(world);
  if (which == "rounds") return gv::as_mixing(world);
  return world;
}

}  // namespace

int main(int argc, char** argv) {
  const std::uint64_t worlds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
  const std::string_view which = argc > 2 ? argv[2] : "";
  for (std::uint64_t seed = 1; seed <= worlds; ++seed) {
    const auto violation = gv::run_world(draw(seed, which)).violation;
    if (!violation) continue;
    std::printf("caught in the world of seed %llu: \"%s\": %s\n",
                static_cast<unsigned long long>(seed), violation->invariant.c_str(),
                violation->what.c_str());
    return 0;
  }
  std::printf("not caught\n");
  return 1;
}
