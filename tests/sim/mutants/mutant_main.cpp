// Runs drawn worlds with a broken core: success is to find out that it is broken. With "pipelines"
// or "rounds" all are of that kind.
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "sim/virtual/swarm.hpp"

int main(int argc, char** argv) {
  gv::SwarmOptions options;
  options.worlds = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1000;
  const std::string_view which = argc > 2 ? argv[2] : "";
  if (which == "pipelines") {
    options.draw = [](std::uint64_t seed) { return gv::as_pipeline(gv::draw_world(seed)); };
  } else if (which == "rounds") {
    options.draw = [](std::uint64_t seed) { return gv::as_rounds(gv::draw_world(seed)); };
  }
  const int code = gv::run_swarm(options);
  const bool caught = code == gv::swarm_unsafe || code == gv::swarm_stuck;
  std::printf("%s\n", caught ? "caught" : "not caught");
  return caught ? 0 : 1;
}
