// Which connection gives way when too many strangers wait, tested with random arrivals.
#include "net/proving_places.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <map>
#include <optional>
#include <string>

#include "base/rng.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;
using Id = ProvingPlaces::Id;

constexpr ProvingPlaces::Options few{.places = 8, .kept_max = 3, .grace = 500ms, .seed = 7};

/// The test's own record of a connection: its age, its source, and whether it is kept.
struct Here {
  Time since{};
  std::string source;
  bool is_kept = false;
};

std::size_t from(const std::map<Id, Here>& all, const std::string& source) {
  return static_cast<std::size_t>(std::ranges::count_if(all, [&](const auto& entry) {
    return entry.second.source == source && !entry.second.is_kept;
  }));
}

}  // namespace

TEST_CASE("of any drawn arrivals only one of the source with the most gives way, the old first") {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Rng rng(seed);
    ProvingPlaces places(few);
    std::map<Id, Here> here;
    Time now{};
    for (Id id = 1; id <= 400; ++id) {
      now += std::chrono::milliseconds(rng.below(60));
      const std::string source(1, static_cast<char>('a' + rng.below(1 + seed % 5)));
      here[id] = {.since = now, .source = source};
      const std::optional<Id> gone = places.enter(now, id, source);
      const auto waiting = static_cast<std::size_t>(
          std::ranges::count_if(here, [](const auto& each) { return !each.second.is_kept; }));
      REQUIRE(gone.has_value() == (waiting > few.places));
      if (gone) {
        REQUIRE(here.contains(*gone));
        CHECK(*gone != id);
        const Here left = here.at(*gone);
        CHECK_FALSE(left.is_kept);
        const std::size_t most = from(here, left.source);
        bool old_ones = false;
        for (const auto& [other, each] : here) {
          if (each.is_kept) continue;
          CHECK(from(here, each.source) <= most);
          if (from(here, each.source) == most && now - each.since >= few.grace) old_ones = true;
        }
        // A connection within its grace period gives way only if no other connection has passed its
        // own grace period.
        if (now - left.since < few.grace) CHECK_FALSE(old_ones);
        here.erase(*gone);
      }
      if (rng.chance(0.1)) {
        const Id kept =
            std::next(here.begin(), static_cast<std::ptrdiff_t>(rng.below(here.size())))->first;
        const auto before =
            std::ranges::count_if(here, [](const auto& each) { return each.second.is_kept; });
        places.keep(kept);
        if (before < static_cast<std::ptrdiff_t>(few.kept_max)) here[kept].is_kept = true;
      }
      if (rng.chance(0.2)) {
        const Id leaver =
            std::next(here.begin(), static_cast<std::ptrdiff_t>(rng.below(here.size())))->first;
        places.leave(leaver);
        here.erase(leaver);
      }
      REQUIRE(places.size() == here.size());
    }
  }
}

TEST_CASE("a partner keeps its place against any number of connections of another source") {
  ProvingPlaces places(few);
  Time now{};
  REQUIRE_FALSE(places.enter(now, 1, "partner"));
  for (Id id = 2; id <= 10000; ++id) {
    now += 1ms;
    CHECK(places.enter(now, id, "flood") != Id{1});
  }
}

TEST_CASE("a partner that is slow keeps its place by chance among a flood of its own source") {
  // At ten thousand arrivals a second, few connections survive to the end of their grace period.
  int kept = 0;
  constexpr int rounds = 1000;
  for (int round = 0; round < rounds; ++round) {
    ProvingPlaces::Options options{.places = 100, .seed = static_cast<std::uint64_t>(round + 1)};
    ProvingPlaces places(options);
    Time now{};
    for (Id id = 1; id <= 100; ++id) places.enter(now, id, "one");
    bool is_here = places.enter(now, 1000, "one") != Id{1000};
    for (Id id = 1001; id <= 1100; ++id) {
      now += 100us;
      if (places.enter(now, id, "one") == Id{1000}) is_here = false;
    }
    kept += is_here ? 1 : 0;
  }
  // (1 - 1 / 101)^101 is 0.366; three standard deviations of 1000 rounds are 0.046.
  CHECK(kept > 0.32 * rounds);
  CHECK(kept < 0.412 * rounds);
}

TEST_CASE("those that came before a time are found, kept or not") {
  ProvingPlaces places(few);
  places.enter(Time{1s}, 1, "");
  places.enter(Time{2s}, 2, "");
  places.enter(Time{3s}, 3, "");
  places.keep(1);
  std::vector<Id> old = places.older_than(Time{3s});
  std::ranges::sort(old);
  CHECK(old == std::vector<Id>{1, 2});
  places.leave(1);
  places.leave(2);
  CHECK(places.older_than(Time{3s}).empty());
  CHECK(places.size() == 1);
}

}  // namespace gv
