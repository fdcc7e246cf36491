// Random worlds that once revealed a fault, kept as they were then.
#include <catch2/catch.hpp>
#include <filesystem>
#include <string>

#include "cli/simulate.hpp"
#include "sim/virtual/swarm.hpp"
#include "tests/sim/worlds.hpp"

namespace gv {

TEST_CASE("worlds that found something once keep every invariant", "[sim]") {
  int worlds = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator(GRAPEVINE_SOURCE_DIR "/tests/sim/found")) {
    // The files are named seed-N.toml.
    const std::string name = entry.path().stem().string();
    INFO(name);
    const CheckedWorld read =
        read_world(entry.path().string(), std::stoull(name.substr(name.find('-') + 1)));
    INFO((read.problems.empty() ? "" : to_string(read.problems.front())));
    REQUIRE(read.problems.empty());
    const Verdict verdict = run_world(read.world);
    INFO(text_of(verdict));
    CHECK_FALSE(verdict.violation);
    ++worlds;
  }
  CHECK(worlds > 3);
}

}  // namespace gv
