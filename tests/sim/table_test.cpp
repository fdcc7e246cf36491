// The live table of launched peers on terminals of any size.
#include "sim/local/table.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

namespace gv {

TEST_CASE("a line of the live table never continues in the next row of the terminal", "[unit]") {
  const std::string wide(100, 'x');
  CHECK(fitted({wide, "short"}, {.columns = 80, .rows = 24}) ==
        std::vector<std::string>{std::string(80, 'x'), "short"});
  // Characters of more than one byte are counted once and stay whole.
  CHECK(fitted({"näher am Rand"}, {.columns = 2}) == std::vector<std::string>{"nä"});
  // Control sequences fill no column, and the one that ends a colour is kept.
  CHECK(fitted({"\x1b[1;31mred and wide\x1b[0m"}, {.columns = 3}) ==
        std::vector<std::string>{"\x1b[1;31mred\x1b[0m"});
  CHECK(fitted({wide}, {}) == std::vector<std::string>{wide});
}

TEST_CASE("a live table that is too high says how many lines are left out", "[unit]") {
  const std::vector<std::string> lines = {"head", "peer", "a", "b", "c"};
  CHECK(fitted(lines, {.columns = 80, .rows = 6}) == lines);
  CHECK(fitted(lines, {.columns = 80, .rows = 5}) ==
        std::vector<std::string>{"head", "peer", "a", "2 more lines have no room here"});
  // Even the smallest terminal gets a line.
  for (const std::size_t rows : {1U, 2U}) {
    CHECK(fitted(lines, {.columns = 80, .rows = rows}).size() == 1);
  }
}

}  // namespace gv
