// Parts of a gradient in any order.
#include "peer/host/gradient_parts.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/rng.hpp"

namespace gv {
namespace {

/// A part in which each element's value is its index.
GradientPart part(std::size_t begin, std::size_t end) {
  return {.range = {begin, end}, .read = [begin](std::span<float> values) {
            for (std::size_t i = 0; i < values.size(); ++i) {
              values[i] = static_cast<float>(begin + i);
            }
          }};
}

}  // namespace

TEST_CASE("a part of a gradient is ready once all behind it are there", "[unit]") {
  std::vector<float> out(10, -1);
  std::vector<std::pair<std::size_t, std::size_t>> told;
  const ReadyRange ready = [&](std::size_t begin, std::size_t end) {
    told.emplace_back(begin, end);
  };
  GradientParts parts(out, ready);
  CHECK(parts.is_empty());
  parts.take(part(2, 5));
  CHECK_FALSE(parts.is_empty());
  CHECK(told.empty());
  parts.take(part(8, 10));
  parts.take(part(5, 8));
  CHECK(parts.ready_from() == 2);
  parts.take(part(0, 2));
  CHECK(told == std::vector<std::pair<std::size_t, std::size_t>>{{8, 10}, {2, 8}, {0, 2}});
  CHECK(out == std::vector<float>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
}

TEST_CASE("parts of a gradient that overlap are refused and copied nowhere", "[unit]") {
  const ReadyRange tells_none;
  std::vector<float> out(10, -1);
  GradientParts parts(out, tells_none);
  parts.take(part(3, 6));
  parts.take(part(8, 10));
  const std::vector<float> before = out;
  const auto [begin, end] =
      GENERATE(std::pair{3, 6}, std::pair{2, 4}, std::pair{5, 7}, std::pair{4, 5}, std::pair{2, 7},
               std::pair{7, 9}, std::pair{9, 11}, std::pair{6, 6}, std::pair{7, 6});
  CHECK_THROWS_AS(parts.take(part(static_cast<std::size_t>(begin), static_cast<std::size_t>(end))),
                  std::logic_error);
  CHECK(out == before);
  parts.take(part(6, 8));
  CHECK(parts.ready_from() == 3);
}

TEST_CASE("a gradient is whole whatever the order of its parts", "[unit]") {
  const ReadyRange tells_none;
  Rng draws(GENERATE(range(1, 20)));
  std::vector<float> out(200, -1);
  std::vector<GradientPart> all;
  for (std::size_t begin = 0; begin < out.size();) {
    const std::size_t end = std::min(out.size(), begin + 1 + draws.below(30));
    all.push_back(part(begin, end));
    begin = end;
  }
  GradientParts parts(out, tells_none);
  while (!all.empty()) {
    const std::size_t at = draws.below(all.size());
    parts.take(all[at]);
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(at));
    // Every element from ready_from() on must have its final value.
    for (std::size_t i = parts.ready_from(); i < out.size(); ++i) {
      REQUIRE(out[i] == static_cast<float>(i));
    }
  }
  CHECK(parts.ready_from() == 0);
}

}  // namespace gv
