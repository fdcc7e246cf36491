// Runs drawn worlds, with "pipelines" those as pipelines alone, with a broken core: success is to
// find out that it is broken.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "sim/virtual/swarm.hpp"

int main(int argc, char** argv) {
  gv::SwarmOptions options;
  options.worlds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
  if (argc > 2 && std::string_view(argv[2]) == "pipelines") {
    options.draw = [](std::uint64_t seed) { return gv::as_pipeline(gv::draw_world(seed)); };
  }
  const int code = gv::run_swarm(options);
  const bool caught = code == gv::swarm_unsafe || code == gv::swarm_stuck;
  std::printf("%s\n", caught ? "caught" : "not caught");
  return caught ? 0 : 1;
}
