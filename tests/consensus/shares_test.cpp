// Shares of a batch follow the speeds, are optimal, and always add up to the batch.
#include "base/shares.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "base/rng.hpp"

namespace gv {
namespace {

using Shares = std::vector<std::uint32_t>;

double last_done(const Shares& shares, const std::vector<double>& speeds) {
  double last = 0;
  for (std::size_t i = 0; i < shares.size(); ++i) last = std::max(last, shares[i] / speeds[i]);
  return last;
}

/// The shortest time in which the peers from `peer` on, with these speeds, can process `left`
/// samples. Tries every share up to `most` for every peer.
double brute_force(const std::vector<double>& speeds, std::size_t peer, std::uint32_t left,
                   std::uint32_t most) {
  if (peer == speeds.size()) return left == 0 ? 0 : std::numeric_limits<double>::infinity();
  double best = std::numeric_limits<double>::infinity();
  for (std::uint32_t share = 1; share <= std::min(left, most); ++share) {
    const double rest = brute_force(speeds, peer + 1, left - share, most);
    best = std::min(best, std::max(share / speeds[peer], rest));
  }
  return best;
}

}  // namespace

TEST_CASE("no shares of a batch are done earlier") {
  Rng rng(1);
  for (std::size_t peers = 1; peers <= 4; ++peers) {
    for (int i = 0; i < 50; ++i) {
      std::vector<double> speeds(peers);
      for (double& speed : speeds) speed = std::exp(2 * rng.normal());
      const auto total = static_cast<std::uint32_t>(peers + rng.below(12));
      const auto least = static_cast<std::uint32_t>((total + peers - 1) / peers);
      const auto most = least + static_cast<std::uint32_t>(rng.below(8));
      const Shares shares = batch_shares(speeds, total, most);
      REQUIRE(last_done(shares, speeds) == brute_force(speeds, 0, total, most));
    }
  }
}

TEST_CASE("shares are those of dealing the samples one by one") {
  Rng rng(3);
  for (int i = 0; i < 500; ++i) {
    std::vector<double> speeds(1 + rng.below(12));
    for (double& speed : speeds) speed = rng.chance(0.3) ? 2 : std::exp(4 * rng.normal());
    const std::uint64_t peers = speeds.size();
    const auto least = static_cast<std::uint32_t>(1 + rng.below(20));
    const auto most = static_cast<std::uint32_t>(least + rng.below(rng.chance(0.5) ? 30 : 3000));
    const auto total =
        static_cast<std::uint32_t>(peers * least + rng.below(peers * (most - least) + 1));
    Shares dealt(peers, least);
    for (std::uint64_t given = peers * least; given < total; ++given) {
      std::size_t next = peers;
      for (std::size_t p = 0; p < peers; ++p) {
        if (dealt[p] == most) continue;
        const auto end = [&](std::size_t at) { return (dealt[at] + 1.0) / speeds[at]; };
        if (next == peers || end(p) < end(next)) next = p;
      }
      ++dealt[next];
    }
    REQUIRE(batch_shares(speeds, total, most, least) == dealt);
  }
}

TEST_CASE("shares sum to the batch and keep their bounds") {
  Rng rng(2);
  for (int i = 0; i < 300; ++i) {
    std::vector<double> speeds(1 + rng.below(40));
    for (double& speed : speeds) speed = rng.chance(0.2) ? 0 : std::exp(3 * rng.normal());
    const std::uint64_t peers = speeds.size();
    const auto most = static_cast<std::uint32_t>(1 + rng.below(100));
    const auto total = static_cast<std::uint32_t>(peers + rng.below(peers * most - peers + 1));
    const auto least = static_cast<std::uint32_t>(1 + rng.below(total / peers));
    const Shares shares = batch_shares(speeds, total, most, least);
    REQUIRE(shares.size() == peers);
    REQUIRE(std::accumulate(shares.begin(), shares.end(), std::uint64_t{0}) == total);
    REQUIRE(*std::ranges::min_element(shares) >= least);
    REQUIRE(*std::ranges::max_element(shares) <= most);
  }
}

TEST_CASE("shares are proportional where speeds divide the batch") {
  CHECK(batch_shares(std::vector{100.0, 300.0, 200.0}, 60, 1000) == Shares{10, 30, 20});
  CHECK(batch_shares(std::vector{5.0, 5.0, 5.0, 5.0}, 32, 1000) == Shares{8, 8, 8, 8});
}

TEST_CASE("a peer too slow for one sample gets one and a fast one no more than it may") {
  CHECK(batch_shares(std::vector{1e-9, 1.0, 1.0}, 21, 1000) == Shares{1, 10, 10});
  CHECK(batch_shares(std::vector{1e9, 1.0, 1.0}, 20, 8) == Shares{8, 6, 6});
}

TEST_CASE("a peer of no measured speed counts as the median of the others") {
  const double nan = std::nan("");
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double unknown : {0.0, -1.0, nan, infinity}) {
    CHECK(batch_shares(std::vector{100.0, unknown, 300.0, 200.0}, 80, 100) ==
          Shares{10, 20, 30, 20});
    CHECK(batch_shares(std::vector{unknown, unknown}, 9, 100) == Shares{5, 4});
  }
}

TEST_CASE("of equal peers the first gets the sample left over") {
  CHECK(batch_shares(std::vector{2.0, 2.0, 2.0}, 10, 100) == Shares{4, 3, 3});
}

TEST_CASE("nobody shares nothing") { CHECK(batch_shares({}, 0, 5).empty()); }

}  // namespace gv
