// Partitions compared with brute force; chain maps and routes checked against their promises.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "base/rng.hpp"
#include "consensus/pipeline/chain_map.hpp"
#include "consensus/pipeline/peer_groups.hpp"
#include "consensus/pipeline/router.hpp"
#include "consensus/pipeline/stage_partition.hpp"

namespace gv {
namespace {

constexpr double impossible = std::numeric_limits<double>::infinity();

double drawn(Rng& rng) { return std::exp(rng.normal()); }

std::vector<LayerCost> drawn_layers(std::size_t count, Rng& rng) {
  std::vector<LayerCost> layers(count);
  for (LayerCost& layer : layers) {
    layer = {.forward_s = drawn(rng),
             .backward_s = 2 * drawn(rng),
             .parameter_bytes = drawn(rng),
             .kept_bytes = drawn(rng),
             .output_bytes = drawn(rng)};
  }
  return layers;
}

PipelineSite drawn_site(std::size_t peers, Rng& rng) {
  PipelineSite site;
  for (std::size_t p = 0; p < peers; ++p) {
    site.speeds.push_back(drawn(rng));
    site.memory_bytes.push_back(10 + 40 * rng.uniform());
    site.seconds_per_byte.emplace_back();
    for (std::size_t q = 0; q < peers; ++q) site.seconds_per_byte[p].push_back(drawn(rng));
  }
  return site;
}

/// Tries every way to cut layers and peers into stages, and returns the best time. Written from the
/// definition, not from the tested code.
double brute_force(const std::vector<LayerCost>& layers, const PipelineSite& site,
                   const PartitionOptions& options) {
  const std::size_t stages = options.stages;
  double best = impossible;
  const auto cuts = [stages](std::size_t length) {
    std::vector<std::vector<std::size_t>> all;
    for (std::uint32_t mask = 0; mask < 1u << (length - 1); ++mask) {
      std::vector<std::size_t> ends;
      for (std::size_t i = 0; i + 1 < length; ++i) {
        if (mask >> i & 1) ends.push_back(i + 1);
      }
      ends.push_back(length);
      if (ends.size() == stages) all.push_back(ends);
    }
    return all;
  };
  for (const auto& layer_ends : cuts(layers.size())) {
    for (const auto& peer_ends : cuts(site.speeds.size())) {
      double slowest = 0;
      for (std::size_t s = 0; s < stages; ++s) {
        const std::size_t layer = s > 0 ? layer_ends[s - 1] : 0;
        const std::size_t peer = s > 0 ? peer_ends[s - 1] : 0;
        double work = 0;
        double parameters = 0;
        double kept = 0;
        for (std::size_t l = layer; l < layer_ends[s]; ++l) {
          work += layers[l].forward_s + layers[l].backward_s;
          parameters += layers[l].parameter_bytes;
          kept += layers[l].kept_bytes;
        }
        double speed = 0;
        for (std::size_t p = peer; p < peer_ends[s]; ++p) speed += site.speeds[p];
        // In 1F1B with p stages, stage s keeps the activations of p - s micro-batches.
        const double memory =
            3 * parameters +
            static_cast<double>(std::min(stages - s, options.micro_batches)) * kept;
        for (std::size_t p = peer; p < peer_ends[s]; ++p) {
          if (!site.memory_bytes.empty() && memory > site.memory_bytes[p]) slowest = impossible;
        }
        double transfer = 0;
        if (s + 1 < stages && !site.seconds_per_byte.empty()) {
          double link = 0;
          for (std::size_t a = peer; a < peer_ends[s]; ++a) {
            for (std::size_t b = peer_ends[s]; b < peer_ends[s + 1]; ++b) {
              link = std::max({link, site.seconds_per_byte[a][b], site.seconds_per_byte[b][a]});
            }
          }
          const std::size_t links = std::min(peer_ends[s] - peer, peer_ends[s + 1] - peer_ends[s]);
          transfer = layers[layer_ends[s] - 1].output_bytes * link / static_cast<double>(links);
        }
        slowest = std::max(slowest, options.overlaps ? std::max(work / speed, transfer)
                                                     : work / speed + 2 * transfer);
      }
      best = std::min(best, slowest);
    }
  }
  return best;
}

using Map = std::vector<std::vector<std::uint32_t>>;

void give(std::vector<StageCarrier>& carriers, const Map& map) {
  for (std::size_t i = 0; i < carriers.size(); ++i) carriers[i].stages = map[i];
}

std::vector<StageCarrier> peers_of_speeds(const std::vector<double>& speeds) {
  std::vector<StageCarrier> carriers;
  for (std::size_t i = 0; i < speeds.size(); ++i) {
    carriers.push_back({.peer = PeerId{i + 1}, .speed = speeds[i], .stages = {}, .copies = {}});
  }
  return carriers;
}

/// Time of the slowest stage for each micro-batch, if every peer carries one stage.
double slowest(const std::vector<StageCarrier>& carriers, const std::vector<double>& seconds) {
  double worst = 0;
  for (std::uint32_t s = 0; s < seconds.size(); ++s) {
    double speed = 0;
    for (const StageCarrier& carrier : carriers) {
      if (carrier.stages.front() == s) speed += carrier.speed;
    }
    worst = std::max(worst, seconds[s] / speed);
  }
  return worst;
}

}  // namespace

TEST_CASE("no partition of layers and peers is quicker") {
  Rng rng(1);
  int without = 0;
  for (int i = 0; i < 300; ++i) {
    const std::vector<LayerCost> layers = drawn_layers(1 + rng.below(8), rng);
    PipelineSite site = drawn_site(1 + rng.below(4), rng);
    if (rng.chance(0.3)) site.memory_bytes.clear();
    if (rng.chance(0.2)) site.seconds_per_byte.clear();
    const PartitionOptions options{
        .stages = 1 + rng.below(4), .micro_batches = 1 + rng.below(6), .overlaps = rng.chance(0.5)};
    const double least = brute_force(layers, site, options);
    const std::optional<StagePartition> found = partition_stages(layers, site, options);
    REQUIRE(found.has_value() == (least < impossible));
    if (!found) {
      ++without;
      continue;
    }
    REQUIRE(found->seconds == Approx(least).epsilon(1e-12));
    REQUIRE(found->stages.size() == options.stages);
    REQUIRE(found->stages.front().first_layer == 0);
    REQUIRE(found->stages.back().end_layer == layers.size());
    REQUIRE(found->stages.back().end_peer == site.speeds.size());
    for (std::size_t s = 1; s < options.stages; ++s) {
      REQUIRE(found->stages[s].first_layer == found->stages[s - 1].end_layer);
      REQUIRE(found->stages[s].first_peer == found->stages[s - 1].end_peer);
    }
  }
  CHECK(without > 10);
  CHECK(without < 250);
}

TEST_CASE("a partition into hundreds of stages of one peer each takes little memory") {
  const std::vector<LayerCost> layers(220, {.forward_s = 1, .backward_s = 2});
  const PipelineSite site{.speeds = std::vector<double>(200, 1.0)};
  const auto found = partition_stages(layers, site, {.stages = 200});
  REQUIRE(found);
  CHECK(found->seconds == 6);
  CHECK(found->stages.size() == 200);
  CHECK(found->stages.back().end_layer == 220);
  CHECK(found->stages.back().end_peer == 200);
}

TEST_CASE("no order of the peers is quicker") {
  Rng rng(2);
  for (int i = 0; i < 60; ++i) {
    const std::vector<LayerCost> layers = drawn_layers(2 + rng.below(6), rng);
    const PipelineSite site = drawn_site(2 + rng.below(3), rng);
    const PartitionOptions options{.stages = 2, .micro_batches = 4};
    std::vector<std::size_t> order(site.speeds.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    double least = impossible;
    do {
      PipelineSite ordered;
      for (const std::size_t peer : order) {
        ordered.speeds.push_back(site.speeds[peer]);
        ordered.memory_bytes.push_back(site.memory_bytes[peer]);
        ordered.seconds_per_byte.emplace_back();
        for (const std::size_t other : order) {
          ordered.seconds_per_byte.back().push_back(site.seconds_per_byte[peer][other]);
        }
      }
      least = std::min(least, brute_force(layers, ordered, options));
    } while (std::ranges::next_permutation(order).found);
    const auto found = best_partition(layers, site, options);
    REQUIRE(found.has_value() == (least < impossible));
    if (found) REQUIRE(found->partition.seconds == Approx(least).epsilon(1e-12));
  }
}

TEST_CASE("of many peers an order is found that is no worse than that of their speeds") {
  Rng rng(3);
  for (int i = 0; i < 5; ++i) {
    const std::vector<LayerCost> layers = drawn_layers(10, rng);
    PipelineSite site = drawn_site(7, rng);
    site.memory_bytes.clear();
    const PartitionOptions options{.stages = 3, .micro_batches = 8};
    PipelineSite sorted = site;
    std::ranges::sort(sorted.speeds, std::greater{});
    sorted.seconds_per_byte.clear();
    site.seconds_per_byte.clear();
    const auto plain = partition_stages(layers, sorted, options);
    const auto found = best_partition(layers, site, options);
    REQUIRE((plain && found));
    CHECK(found->partition.seconds <= plain->seconds);
    CHECK(std::set(found->order.begin(), found->order.end()).size() == 7);
  }
}

TEST_CASE("a partition is no slower over quicker links and never over its memory") {
  Rng rng(4);
  for (int i = 0; i < 50; ++i) {
    const std::vector<LayerCost> layers = drawn_layers(8, rng);
    PipelineSite site = drawn_site(4, rng);
    const PartitionOptions options{.stages = 3, .micro_batches = 4};
    double before = impossible;
    for (int faster = 0; faster < 5; ++faster) {
      const auto found = partition_stages(layers, site, options);
      if (!found) break;
      CHECK(found->seconds <= before);
      before = found->seconds;
      for (const PlannedStage& stage : found->stages) {
        for (std::size_t p = stage.first_peer; p < stage.end_peer; ++p) {
          CHECK(stage.memory_bytes <= site.memory_bytes[p]);
        }
      }
      for (auto& row : site.seconds_per_byte) {
        for (double& link : row) link /= 2;
      }
    }
  }
}

TEST_CASE("what must be kept follows the schedule and the place of the stage") {
  const std::vector<LayerCost> layers(
      4, {.parameter_bytes = 100, .kept_bytes = 10, .output_bytes = 2});
  const PipelineSite site{.speeds = {1, 1, 1, 1}};
  const auto memory = [&](PartitionOptions options) {
    options.stages = 4;
    options.micro_batches = 8;
    std::vector<double> bytes;
    const StagePartition found = partition_stages(layers, site, options).value();
    for (const PlannedStage& stage : found.stages) {
      bytes.push_back(stage.memory_bytes);
    }
    return bytes;
  };
  using Bytes = std::vector<double>;
  CHECK(memory({}) == Bytes{340, 330, 320, 310});
  CHECK(memory({.kind = PipelineKind::gpipe}) == Bytes{380, 380, 380, 380});
  CHECK(memory({.kind = PipelineKind::pipedream}) == Bytes{640, 530, 420, 310});
  CHECK(memory({.kind = PipelineKind::two_bw, .accumulate = 4}) == Bytes{440, 430, 420, 410});
  // `ahead` never reaches past the next update.
  CHECK(memory({.kind = PipelineKind::two_bw, .accumulate = 4, .ahead = 1}) ==
        Bytes{440, 440, 430, 410});
  CHECK(memory({.kind = PipelineKind::two_bw, .accumulate = 8, .ahead = 1}) ==
        Bytes{470, 450, 430, 410});
  CHECK(memory({.recomputes = true}) == Bytes{310, 316, 314, 312});
}

// ---- Chain maps ----

TEST_CASE("the first map gives every stage a peer and the slowest stages more") {
  auto carriers = peers_of_speeds({1, 1, 1, 1, 1, 1});
  const std::vector<double> seconds = {1, 2, 3};
  const Map map = map_stages(carriers, seconds);
  give(carriers, map);
  CHECK(slowest(carriers, seconds) == Approx(1));
}

TEST_CASE("a map is kept as long as nothing changes") {
  Rng rng(6);
  for (int i = 0; i < 300; ++i) {
    std::vector<double> speeds(1 + rng.below(12));
    for (double& speed : speeds) speed = rng.chance(0.1) ? 0 : drawn(rng);
    std::vector<double> seconds(1 + rng.below(5));
    for (double& stage : seconds) stage = drawn(rng);
    auto carriers = peers_of_speeds(speeds);
    Map map = map_stages(carriers, seconds);
    // Balancing moves one peer at a time and only for a gain of at least 15 %, so it comes to an
    // end.
    int moves = 0;
    for (bool settled = false; !settled; ++moves) {
      REQUIRE(moves < 60);
      give(carriers, map);
      Map next = map_stages(carriers, seconds);
      settled = next == map;
      map = std::move(next);
    }
    std::set<std::uint32_t> carried;
    for (const auto& stages : map) {
      REQUIRE_FALSE(stages.empty());
      REQUIRE(std::ranges::is_sorted(stages));
      for (const std::uint32_t stage : stages) {
        const bool is_new = carried.insert(stage).second;
        REQUIRE((is_new || speeds.size() > seconds.size()));
      }
    }
    REQUIRE(carried.size() == seconds.size());
  }
}

TEST_CASE("a small difference of speeds moves nobody and a large one moves one peer") {
  const std::vector<double> seconds = {1, 1};
  auto carriers = peers_of_speeds({1, 1, 1, 1, 1, 1});
  give(carriers, {{0}, {0}, {0}, {1}, {1}, {1}});
  CHECK(map_stages(carriers, seconds) == Map{{0}, {0}, {0}, {1}, {1}, {1}});
  for (std::size_t i = 0; i < 3; ++i) carriers[i].speed = 1.2;
  CHECK(map_stages(carriers, seconds) == Map{{0}, {0}, {0}, {1}, {1}, {1}});
  for (std::size_t i = 0; i < 3; ++i) carriers[i].speed = 4;
  CHECK(map_stages(carriers, seconds) == Map{{1}, {0}, {0}, {1}, {1}, {1}});
}

TEST_CASE("two that carry a stage alone exchange them if that is worth it") {
  const std::vector<double> seconds = {1, 4, 2};
  auto carriers = peers_of_speeds({1, 1, 1});
  give(carriers, {{0}, {1}, {2}});
  CHECK(map_stages(carriers, seconds) == Map{{0}, {1}, {2}});
  // The slow peer moves to the fastest stage, and that stage's peer takes its place.
  carriers[1].speed = 0.4;
  CHECK(map_stages(carriers, seconds) == Map{{1}, {0}, {2}});
  // The gain is less than 15 %: stage 1 takes 4 / 0.9 instead of 4.
  carriers[1].speed = 0.9;
  CHECK(map_stages(carriers, seconds) == Map{{0}, {1}, {2}});
  // map_stages() takes the better of a move and an exchange. A move would give the slowest stage a
  // second peer, which halves its time. An exchange gives it the fast peer, which gains more.
  carriers = peers_of_speeds({1, 1, 8, 1});
  give(carriers, {{0}, {1}, {2}, {2}});
  CHECK(map_stages(carriers, seconds) == Map{{0}, {2}, {1}, {2}});
}

TEST_CASE("a stage that nobody has left goes to who can be spared") {
  const std::vector<double> seconds = {1, 1, 1};
  auto carriers = peers_of_speeds({1, 1, 1, 1});
  give(carriers, {{0}, {0}, {2}, {2}});
  CHECK(map_stages(carriers, seconds) == Map{{1}, {0}, {2}, {2}});
  // A newcomer is preferred to a peer that already has another stage.
  give(carriers, {{0}, {0}, {2}, {}});
  CHECK(map_stages(carriers, seconds) == Map{{0}, {0}, {2}, {1}});
}

TEST_CASE("with fewer peers than stages the holder of a copy carries two until somebody comes") {
  const std::vector<double> seconds = {1, 1, 1};
  auto carriers = peers_of_speeds({1, 1});
  give(carriers, {{0}, {2}});
  CHECK(map_stages(carriers, seconds) == Map{{0, 1}, {2}});
  carriers[1].copies = {1};
  CHECK(map_stages(carriers, seconds) == Map{{0}, {1, 2}});
  carriers[1].speed = 0.01;
  CHECK(map_stages(carriers, seconds) == Map{{0}, {1, 2}});
  give(carriers, {{0}, {1, 2}});
  carriers.push_back({.peer = PeerId{9}, .speed = 1, .stages = {}, .copies = {}});
  CHECK(map_stages(carriers, seconds) == Map{{0}, {1}, {2}});
}

TEST_CASE("one peer alone carries everything") {
  const auto carriers = peers_of_speeds({1});
  CHECK(map_stages(carriers, std::vector<double>{1, 1, 1}) == Map{{0, 1, 2}});
}

TEST_CASE("a newcomer joins the stage that is slowest") {
  const std::vector<double> seconds = {1, 3, 1};
  auto carriers = peers_of_speeds({1, 2, 1, 1});
  give(carriers, {{0}, {1}, {2}, {}});
  CHECK(map_stages(carriers, seconds)[3] == std::vector<std::uint32_t>{1});
}

TEST_CASE("a pinned peer carries its stage and others carry it while the peer is away") {
  const std::vector<double> seconds = {1, 1, 1};
  auto carriers = peers_of_speeds({1, 1, 1});
  carriers[0].pin = 2;
  CHECK(map_stages(carriers, seconds) == Map{{2}, {0}, {1}});
  // The pinned peer gives up the stages that it carried before, and takes no other stage.
  give(carriers, {{0}, {1}, {2}});
  CHECK(map_stages(carriers, seconds)[0] == std::vector<std::uint32_t>{2});
  carriers[2].pin = 2;
  CHECK(map_stages(carriers, seconds) == Map{{2}, {0, 1}, {2}});
  // The pinned peer returns to a stage that another peer has carried in addition to its own.
  carriers = peers_of_speeds({1, 1, 1});
  carriers[0].pin = 0;
  give(carriers, {{}, {0, 1}, {2}});
  CHECK(map_stages(carriers, seconds) == Map{{0}, {1}, {2}});
  // The same holds if the pinned peer already has the stage, unless `balances` is false.
  give(carriers, {{0}, {0, 1}, {2}});
  CHECK(map_stages(carriers, seconds) == Map{{0}, {1}, {2}});
  CHECK(map_stages(carriers, seconds, false) == Map{{0}, {0, 1}, {2}});
  // A newcomer may take any stage of a pinned peer except the one to which that peer is pinned.
  carriers = peers_of_speeds({1, 1, 1});
  carriers[0].pin = 2;
  give(carriers, {{1, 2}, {0}, {}});
  CHECK(map_stages(carriers, seconds) == Map{{2}, {0}, {1}});
  // Peers are moved for the sake of balance only until they are pinned.
  carriers = peers_of_speeds({1, 1, 1});
  carriers[1].speed = 0.1;
  give(carriers, {{0}, {1}, {2}});
  const std::vector<double> unlike = {1, 4, 2};
  CHECK(map_stages(carriers, unlike) == Map{{1}, {0}, {2}});
  for (std::uint32_t i = 0; i < 3; ++i) carriers[i].pin = i;
  CHECK(map_stages(carriers, unlike) == Map{{0}, {1}, {2}});
}

TEST_CASE("pins hold in every map and all stages have carriers until nothing changes") {
  Rng rng(8);
  for (int i = 0; i < 300; ++i) {
    std::vector<double> speeds(1 + rng.below(8));
    for (double& speed : speeds) speed = drawn(rng);
    std::vector<double> seconds(1 + rng.below(5));
    for (double& stage : seconds) stage = drawn(rng);
    auto carriers = peers_of_speeds(speeds);
    if (rng.chance(0.5)) give(carriers, map_stages(carriers, seconds));
    for (StageCarrier& carrier : carriers) {
      if (rng.chance(0.4)) carrier.pin = static_cast<std::uint32_t>(rng.below(seconds.size()));
    }
    Map map;
    int moves = 0;
    for (bool is_settled = false; !is_settled; ++moves) {
      REQUIRE(moves < 60);
      Map next = map_stages(carriers, seconds);
      is_settled = next == map;
      map = std::move(next);
      std::set<std::uint32_t> carried;
      for (std::size_t peer = 0; peer < map.size(); ++peer) {
        REQUIRE_FALSE(map[peer].empty());
        carried.insert(map[peer].begin(), map[peer].end());
        const auto pin = carriers[peer].pin;
        REQUIRE((!pin || std::ranges::binary_search(map[peer], *pin)));
      }
      REQUIRE(carried.size() == seconds.size());
      give(carriers, map);
    }
  }
}

// ---- Routes ----

TEST_CASE("routes go through a replica of each stage and share the work out as promised") {
  const std::vector<std::vector<std::uint32_t>> replicas = {{0, 3}, {1, 4}, {2, 5}};
  const std::vector<double> speeds = {1, 1, 1, 3, 1, 2};
  const auto counts = [](const Routes& routes) {
    std::map<std::uint32_t, std::size_t> taken;
    for (const auto& route : routes) {
      for (const std::uint32_t worker : route) ++taken[worker];
    }
    return taken;
  };
  using Counts = std::map<std::uint32_t, std::size_t>;
  const Routes fixed = make_routes(RouterKind::fixed, replicas, 12, speeds, Rng(1));
  CHECK(fixed[0] == std::vector<std::uint32_t>{0, 1, 2});
  CHECK(fixed[1] == std::vector<std::uint32_t>{3, 4, 5});
  CHECK(fixed[2] == fixed[0]);
  const Counts even = {{0, 6}, {1, 6}, {2, 6}, {3, 6}, {4, 6}, {5, 6}};
  CHECK(counts(fixed) == even);
  const Routes random = make_routes(RouterKind::random, replicas, 12, speeds, Rng(1));
  CHECK(counts(random) == even);
  CHECK(random == make_routes(RouterKind::random, replicas, 12, speeds, Rng(1)));
  CHECK(random != make_routes(RouterKind::random, replicas, 12, speeds, Rng(2)));
  std::set<std::vector<std::uint32_t>> different(random.begin(), random.end());
  CHECK(different.size() > 2);
  const Routes quick = make_routes(RouterKind::throughput, replicas, 12, speeds, Rng(1));
  CHECK(counts(quick) == Counts{{0, 3}, {1, 6}, {2, 4}, {3, 9}, {4, 6}, {5, 8}});
  // The fast peer's share is spread evenly: it has three of any four consecutive micro-batches.
  for (std::size_t b = 0; b + 4 <= 12; ++b) {
    std::size_t own = 0;
    for (std::size_t i = b; i < b + 4; ++i) own += quick[i][0] == 3;
    CHECK(own == 3);
  }
}

TEST_CASE("more replicas than micro-batches take turns") {
  const std::vector<std::vector<std::uint32_t>> replicas = {{0, 1, 2}};
  for (const RouterKind kind : router_kinds) {
    CHECK(make_routes(kind, replicas, 2, std::vector<double>{1, 1, 1}, Rng(1)).size() == 2);
  }
}

TEST_CASE("groups are of peers with the same stages and differ in size by one at most") {
  using Stages = std::vector<std::vector<std::uint32_t>>;
  const Stages stages = {{0}, {1}, {0}, {1}, {0}, {0}, {0}, {1, 2}};
  const PeerGroups pairs = peer_groups(stages, std::vector<GroupSize>(8, {.most = 2}));
  CHECK(pairs.members == Stages{{0}, {1, 3}, {2, 4}, {5, 6}, {7}});
  CHECK(pairs.group_of == std::vector<std::uint32_t>{0, 1, 2, 1, 2, 3, 3, 4});
  std::vector<GroupSize> sizes(8, {.most = 4});
  sizes[1] = sizes[3] = {};
  CHECK(peer_groups(stages, sizes).members == Stages{{0, 2}, {1}, {3}, {4, 5, 6}, {7}});
  const PeerGroups alone = peer_groups(stages, std::vector<GroupSize>(8));
  for (std::uint32_t rank = 0; rank < 8; ++rank) CHECK(alone.group_of[rank] == rank);
}

TEST_CASE("groups of peers with little memory are fewer and larger") {
  for (std::size_t peers = 1; peers <= 20; ++peers) {
    const std::vector<std::vector<std::uint32_t>> stages(peers, {0});
    for (std::size_t least = 1; least <= 4; ++least) {
      const GroupSize size{.least = least, .most = 4};
      const PeerGroups groups = peer_groups(stages, std::vector<GroupSize>(peers, size));
      for (const auto& members : groups.members) {
        CHECK(members.size() >= std::min(peers, least));
        CHECK(members.size() <= size.limit());
      }
    }
  }
}

TEST_CASE("members have slices in proportion to their speeds, as many as fit") {
  using Ranges = std::vector<Range>;
  CHECK(member_slices(std::vector<double>{3, 1}, 24, 24) == Ranges{{0, 18}, {18, 24}});
  CHECK(member_slices(std::vector<double>{3, 1}, 24, 14) == Ranges{{0, 14}, {14, 24}});
  CHECK(member_slices(std::vector<double>{0, 0, 0}, 24, 8) == Ranges{{0, 8}, {8, 16}, {16, 24}});
}

}  // namespace gv
