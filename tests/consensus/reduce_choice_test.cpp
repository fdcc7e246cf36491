// How measured links affect the choice of an all-reduce, and how much false reports can change it.
#include "consensus/allreduce/reduce_choice.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "base/rng.hpp"

namespace gv {
namespace {

constexpr double latency = 100e-6;
constexpr double fast = 1e9;  ///< Bytes per second.
constexpr std::size_t elements = 1 << 20;

std::vector<PeerId> peers(std::size_t n) {
  std::vector<PeerId> ids;
  for (std::size_t i = 0; i < n; ++i) ids.push_back(PeerId{10 + i});
  return ids;
}

std::size_t index_of(PeerId id) { return static_cast<std::size_t>(id) - 10; }

/// Reports on all links between `n` peers. `speed` gives each link's bytes per second.
LinkTable table(std::size_t n, const std::function<double(std::size_t, std::size_t)>& speed) {
  LinkTable links;
  for (std::size_t from = 0; from < n; ++from) {
    std::vector<LinkReport> reports;
    for (std::size_t to = 0; to < n; ++to) {
      if (from == to) continue;
      reports.push_back({PeerId{10 + to}, latency, static_cast<float>(speed(from, to))});
    }
    links.add(PeerId{10 + from}, reports);
  }
  return links;
}

ReduceChoice ring_of(std::size_t n) { return {peers(n), ReduceAlgorithm::ring, {}}; }

/// True for the links between peers a and b, in both directions.
bool is_pair(std::size_t from, std::size_t to, std::size_t a, std::size_t b) {
  return (from == a && to == b) || (from == b && to == a);
}

bool uses(const std::vector<PeerId>& ring, std::size_t a, std::size_t b) {
  for (std::size_t i = 0; i < ring.size(); ++i) {
    if (is_pair(index_of(ring[i]), index_of(ring[(i + 1) % ring.size()]), a, b)) return true;
  }
  return false;
}

const ReduceNeeds only_rings{elements, ReduceAlgorithm::ring, 0};

}  // namespace

TEST_CASE("where all links are alike a prediction is the formula's", "[unit]") {
  const LinkCost link{latency, 1 / fast};
  for (const std::size_t n : {1u, 2u, 3u, 4u, 5u, 8u, 16u, 33u}) {
    const LinkTable links = table(n, [](std::size_t, std::size_t) { return fast; });
    for (const ReduceAlgorithm algorithm : reduce_algorithms()) {
      INFO(to_string(algorithm) << " of " << n);
      for (const double crowd : {0.0, 2.0}) {
        const auto seconds =
            predicted_seconds({peers(n), algorithm, {}}, links,
                              {.elements = elements, .site = {.peers_per_processor = crowd}}, true);
        REQUIRE(seconds);
        // The tolerance allows for chunks of whole elements, and for reports that hold floats.
        CHECK(*seconds == Approx(predicted_seconds(algorithm, n, elements,
                                                   {.link = link, .peers_per_processor = crowd}))
                              .epsilon(1e-4));
      }
    }
  }
}

TEST_CASE("a ring goes round a slow pair and is as much faster as the pair was slower", "[unit]") {
  for (const std::size_t n : {4u, 5u, 9u, 20u}) {
    const LinkTable links = table(n, [](std::size_t from, std::size_t to) {
      return is_pair(from, to, 1, 2) ? fast / 10 : fast;
    });
    const ReduceChoice better = better_choice(ring_of(n), links, only_rings);
    CHECK_FALSE(uses(better.order, 1, 2));
    CHECK(std::ranges::is_permutation(better.order, peers(n)));
    const double before = *predicted_seconds(ring_of(n), links, only_rings, true);
    const double after = *predicted_seconds(better, links, only_rings, true);
    const double chunk = 4.0 * elements / static_cast<double>(n);
    CHECK(before / after ==
          Approx((latency + 10 * chunk / fast) / (latency + chunk / fast)).epsilon(1e-3));
    REQUIRE(better.slowest);
    CHECK(1 / better.slowest->cost.seconds_per_byte == Approx(fast).epsilon(1e-4));
  }
}

TEST_CASE("a slow link that no ring can leave out is named", "[unit]") {
  // Among three peers each is next to both others. A ring can still avoid one slow direction.
  const LinkTable both = table(3, [](std::size_t from, std::size_t to) {
    return is_pair(from, to, 1, 2) ? fast / 10 : fast;
  });
  const ReduceChoice kept = better_choice(ring_of(3), both, only_rings);
  CHECK(kept.order == peers(3));
  REQUIRE(kept.slowest);
  CHECK(kept.slowest->from == PeerId{11});
  CHECK(kept.slowest->to == PeerId{12});
  CHECK(1 / kept.slowest->cost.seconds_per_byte == Approx(fast / 10).epsilon(1e-4));

  const LinkTable one_way = table(
      3, [](std::size_t from, std::size_t to) { return from == 1 && to == 2 ? fast / 10 : fast; });
  CHECK(better_choice(ring_of(3), one_way, only_rings).order ==
        std::vector{PeerId{10}, PeerId{12}, PeerId{11}});
}

TEST_CASE("links that differ by a tenth change no order", "[unit]") {
  Rng rng(5);
  for (int i = 0; i < 200; ++i) {
    const std::size_t n = 3 + rng.below(10);
    const LinkTable links =
        table(n, [&](std::size_t, std::size_t) { return fast * (0.95 + 0.1 * rng.uniform()); });
    CHECK(better_choice(ring_of(n), links, only_rings).order == peers(n));
  }
}

TEST_CASE("what would make little of an operation faster is left as it is", "[unit]") {
  const LinkTable links = table(5, [](std::size_t from, std::size_t to) {
    return is_pair(from, to, 1, 2) ? fast / 10 : fast;
  });
  // Another order would need 7 ms for messages instead of 68 ms. If the whole collective takes a
  // second, this saves only 6 %.
  ReduceNeeds needs = only_rings;
  needs.operation_seconds = 1;
  CHECK(better_choice(ring_of(5), links, needs).order == peers(5));
  needs.operation_seconds = 0.3;
  CHECK_FALSE(uses(better_choice(ring_of(5), links, needs).order, 1, 2));
  // The collective took only 8 ms, so the links cannot be as slow as reported.
  needs.operation_seconds = 0.008;
  CHECK(better_choice(ring_of(5), links, needs).order == peers(5));
}

TEST_CASE("few bytes over measured links of high latency go by few messages", "[unit]") {
  const LinkTable links = table(8, [](std::size_t, std::size_t) { return fast; });
  CHECK(better_choice(ring_of(8), links, {.elements = 100}).algorithm ==
        ReduceAlgorithm::butterfly);
  CHECK(better_choice(ring_of(8), links, {100, ReduceAlgorithm::direct, 0}).algorithm ==
        ReduceAlgorithm::direct);
  CHECK(better_choice(ring_of(8), links, {100, ReduceAlgorithm::halving_doubling, 0}).algorithm ==
        ReduceAlgorithm::halving_doubling);
  // Sending whole vectors of 400 kB takes longer than the additional messages of halving.
  const LinkTable more = table(16, [](std::size_t, std::size_t) { return fast; });
  CHECK(better_choice(ring_of(16), more, {.elements = 100'000}).algorithm ==
        ReduceAlgorithm::halving_doubling);
  CHECK(better_choice(ring_of(8), links, {100, ReduceAlgorithm::tree, 0}).algorithm ==
        ReduceAlgorithm::tree);
  CHECK(better_choice(ring_of(8), links, {100, ReduceAlgorithm::ring, 0}).algorithm ==
        ReduceAlgorithm::ring);
}

TEST_CASE("messages that a peer sends or is sent at once share its link", "[unit]") {
  // All links to one peer are slow. In each phase that peer receives all its messages over them.
  const std::size_t n = 5;
  const LinkTable links =
      table(n, [](std::size_t, std::size_t to) { return to == 2 ? fast / 10 : fast; });
  const ReduceNeeds needs{.elements = elements};
  const double chunk = 4.0 * elements / static_cast<double>(n);
  const double phase =
      latency + static_cast<double>(n - 2) * message_work_s(needs.site) +
      static_cast<double>(n - 1) * 10 * chunk / fast * byte_factor(ReduceAlgorithm::direct);
  const auto seconds =
      predicted_seconds({peers(n), ReduceAlgorithm::direct, {}}, links, needs, true);
  REQUIRE(seconds);
  CHECK(*seconds == Approx(2 * phase).epsilon(1e-4));
}

TEST_CASE("nothing is changed for links that nobody has measured", "[unit]") {
  CHECK(better_choice(ring_of(5), {}, only_rings).order == peers(5));
  CHECK_FALSE(better_choice(ring_of(5), {}, only_rings).slowest);
  // One peer has reported nothing, so no ring consists of measured links alone.
  LinkTable links;
  for (std::size_t from = 0; from < 4; ++from) {
    std::vector<LinkReport> reports;
    for (std::size_t to = 0; to < 5; ++to) {
      const float speed = is_pair(from, to, 1, 2) ? 1e3F : 1e9F;
      if (from != to) reports.push_back({PeerId{10 + to}, 1e-4F, speed});
    }
    links.add(PeerId{10 + from}, reports);
  }
  const ReduceChoice kept = better_choice(ring_of(5), links, only_rings);
  CHECK(kept.order == peers(5));
  CHECK(kept.slowest);
}

TEST_CASE("whatever a peer says of its links all stay in the order once", "[unit]") {
  using Limits = std::numeric_limits<float>;
  const std::vector<float> lies = {0,
                                   -0.0F,
                                   -1,
                                   Limits::quiet_NaN(),
                                   Limits::infinity(),
                                   -Limits::infinity(),
                                   Limits::max(),
                                   Limits::denorm_min()};
  for (const float speed : lies) {
    for (const float its_latency : lies) {
      for (const std::size_t n : {2u, 3u, 5u, 13u}) {
        LinkTable links = table(n, [](std::size_t, std::size_t) { return fast; });
        std::vector<LinkReport> reports{{PeerId{11}, its_latency, speed},
                                        {PeerId{99}, its_latency, speed}};
        for (std::size_t to = 0; to < n; ++to) {
          reports.push_back({PeerId{10 + to}, its_latency, speed});
        }
        links.add(PeerId{11}, reports);
        for (const double operation : {0.0, 0.01, 10.0}) {
          const ReduceChoice choice = better_choice(ring_of(n), links, {elements, {}, operation});
          REQUIRE(std::ranges::is_permutation(choice.order, peers(n)));
          const auto seconds = predicted_seconds(choice, links, only_rings, false);
          REQUIRE(std::isfinite(*seconds));
        }
      }
    }
  }
}

TEST_CASE("a link through which nothing gets is used only where there is no other way", "[unit]") {
  const LinkTable links = table(6, [](std::size_t from, std::size_t to) {
    return is_pair(from, to, 0, 1) || is_pair(from, to, 2, 3) || is_pair(from, to, 4, 5) ? 0 : fast;
  });
  const ReduceChoice better = better_choice(ring_of(6), links, only_rings);
  CHECK_FALSE(uses(better.order, 0, 1));
  CHECK_FALSE(uses(better.order, 2, 3));
  CHECK_FALSE(uses(better.order, 4, 5));
}

}  // namespace gv
