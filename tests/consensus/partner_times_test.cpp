// Slow partners, and how long they are left alone.
#include "consensus/gossip/partner_times.hpp"

#include <catch2/catch.hpp>
#include <cstdint>

#include "base/rng.hpp"

namespace gv {
namespace {

using namespace std::chrono_literals;

PeerId peer(std::uint64_t number) { return PeerId{number}; }

/// Runs exchanges with partners 1 to `partners` in turn. Each takes 200 ms.
Time usual_exchanges(PartnerTimes& times, std::uint64_t partners, Time now, int rounds = 2) {
  for (int round = 0; round < rounds; ++round) {
    for (std::uint64_t number = 1; number <= partners; ++number) {
      times.note(now + 200ms, peer(number), now);
      now += 200ms;
    }
  }
  return now;
}

}  // namespace

TEST_CASE("a partner that takes long rests until it has had no more than its share") {
  PartnerTimes times;
  Time now = usual_exchanges(times, 3, Time(1s));
  times.note(now + 900ms, peer(9), now);
  now += 900ms;
  const auto rest = from_seconds(0.9 / PartnerTimes::share - 0.9);
  CHECK(times.is_resting(now, peer(9)));
  CHECK(times.is_resting(now + rest - 1ms, peer(9)));
  CHECK_FALSE(times.is_resting(now + rest + 1ms, peer(9)));
  for (std::uint64_t number = 1; number <= 3; ++number)
    CHECK_FALSE(times.is_resting(now, peer(number)));
  // The rest is limited however slow the partner was, because its link may have recovered.
  times.note(now + 1h, peer(9), now);
  now += 1h;
  CHECK(times.is_resting(now + PartnerTimes::rest_max - 1ms, peer(9)));
  CHECK_FALSE(times.is_resting(now + PartnerTimes::rest_max + 1ms, peer(9)));
}

TEST_CASE("nobody rests whose exchanges take what is usual or who is the only partner") {
  PartnerTimes times;
  Time now = usual_exchanges(times, 3, Time(1s));
  times.note(now + 799ms, peer(9), now);
  CHECK_FALSE(times.is_resting(now + 800ms, peer(9)));
  PartnerTimes alone;
  for (int round = 0; round < 20; ++round) {
    now += 10s;
    alone.note(now, peer(1), now - (round % 2 == 0 ? 100ms : 9s));
    CHECK_FALSE(alone.is_resting(now, peer(1)));
  }
  // An exchange of less than a tenth of a second is never slow, however fast the others are.
  PartnerTimes quick;
  for (int round = 0; round < 9; ++round) quick.note(now + 1ms, peer(1), now);
  quick.note(now + 99ms, peer(2), now);
  CHECK_FALSE(quick.is_resting(now + 99ms, peer(2)));
}

TEST_CASE("where half of the partners are slow only they rest, and what is remembered is bounded") {
  PartnerTimes times;
  Rng rng(5);
  Time now(1s);
  for (int round = 0; round < 2000; ++round) {
    const auto number = rng.below(20);
    if (times.is_resting(now, peer(number))) continue;
    // Peers with odd numbers are behind slow links.
    const Duration took = number % 2 == 1 ? 3s : 150ms;
    times.note(now + took, peer(number), now);
    now += took;
    for (std::uint64_t other = 0; other < 20; other += 2) {
      CHECK_FALSE(times.is_resting(now, peer(other)));
    }
    CHECK(times.held() <= 35);
  }
}

}  // namespace gv
