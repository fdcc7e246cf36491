// Plans of pipelines whose stages are carried by groups, compared with all possible plans.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/shares.hpp"
#include "consensus/split/split_plan.hpp"
#include "tests/consensus/unlike_peers.hpp"

namespace gv {
namespace {

/// A question about network() in which the members of a group can divide the two dense layers among
/// themselves. These layers form a pair.
SplitQuestion grouped_question(bool all_near, std::size_t samples) {
  SplitQuestion question{.layers = network(), .site = four_peers(all_near), .samples = samples};
  SplitLayer& wide = question.layers[2];
  SplitLayer& last = question.layers[3];
  wide.units = {{wide.operations, wide.weights, 12544, wide.inputs, wide.outputs}};
  wide.slices = 24;
  wide.pair_grains = 1024;
  wide.begins_shared = true;
  last.units = {{last.operations, last.weights, 1024, last.inputs, last.outputs}};
  last.slices = 24;
  for (const std::size_t m : {1, 2, 4, 8}) {
    if (samples % m == 0) question.micro_batches.push_back(m);
  }
  return question;
}

constexpr double impossible = 1e300;

/// Seconds for an all-reduce among n peers in a ring.
double sum_s(double floats, std::size_t n, const SplitLink& link) {
  if (n < 2 || floats == 0) return 0;
  const auto count = static_cast<double>(n);
  return 2 * (count - 1) * link.seconds(4 * floats / count);
}

/// The seconds that a stage takes in a step, and the number of members in each of its groups.
struct StageTime {
  double seconds = impossible;
  std::size_t members = 1;
};

/// The time of a stage with layers [first, last) on these peers. The costs are written out for the
/// layers of network() only.
StageTime stage_time(const SplitQuestion& question, std::size_t first, std::size_t last,
                     const std::vector<std::size_t>& peers, std::size_t m, std::size_t most) {
  const std::size_t size = last > 2 ? most : 1;
  const std::size_t groups = (peers.size() + size - 1) / size;
  const std::size_t members = peers.size() / groups;
  std::vector<double> speeds;
  for (const std::size_t p : peers) speeds.push_back(question.site.peers[p].operations_per_s);
  const bool alike = std::ranges::min(speeds) == std::ranges::max(speeds);
  if (members * groups != peers.size() || groups > m || (members > 1 && groups > 1 && !alike)) {
    return {};
  }
  std::vector<double> group_speeds(groups, 0);
  for (std::size_t i = 0; i < peers.size(); ++i) group_speeds[i / members] += speeds[i];
  const std::vector<std::uint32_t> turns = batch_shares(group_speeds, m, m);
  const SplitLink link = worst_link(question.site, peers, peers);
  const double samples = static_cast<double>(question.samples) / static_cast<double>(m);
  double seconds = 0;
  for (std::size_t layer = first; layer < last; ++layer) {
    const SplitLayer& own = question.layers[layer];
    const bool is_shared = layer >= 2;
    const bool in_pair = first <= 2 && last == 4;
    double slowest = 0;
    for (std::size_t i = 0; i < peers.size(); ++i) {
      double part = 1;
      if (is_shared) {
        const auto block = std::span(speeds).subspan(i / members * members, members);
        std::size_t begin = 0;
        std::size_t end = 0;
        const auto shares = batch_shares(block, 24, 24);
        for (std::size_t j = 0; j <= i % members; ++j) begin = std::exchange(end, end + shares[j]);
        const std::size_t grains = layer == 2 && !in_pair ? 12544 : 1024;
        const auto grain = [&](std::size_t slice) { return (slice * grains + 23) / 24; };
        part = static_cast<double>(grain(end) - grain(begin)) / static_cast<double>(grains);
      }
      double pass = 3 * own.operations * samples * part / speeds[i];
      if (is_shared) {
        pass += sum_s(samples * (layer == 2 ? own.inputs : own.outputs), members, link);
        if (!in_pair) {
          pass += sum_s(samples * (layer == 2 ? own.outputs : own.inputs), members, link);
        }
      }
      if (layer == 0 && members > 1) pass += link.seconds(4 * samples * own.inputs * (members - 1));
      slowest = std::max(slowest, pass * turns[i / members]);
    }
    seconds += slowest;
    seconds += is_shared ? sum_s(own.weights / static_cast<double>(members), groups, link)
                         : sum_s(own.weights, peers.size(), link);
  }
  return {seconds, members};
}

/// The shortest time of a step over all cuts and all assignments of peers in groups of at most
/// `most`, with pinned peers in their stages. Returns `impossible` if no plan puts the pinned peers
/// there.
double least_seconds(const SplitQuestion& question, std::size_t most) {
  double least = impossible;
  for (unsigned cuts = 0; cuts < 8; ++cuts) {
    std::vector<std::size_t> ends;
    for (std::size_t at = 1; at < 4; ++at) {
      if ((cuts >> (at - 1) & 1U) != 0) ends.push_back(at);
    }
    ends.push_back(4);
    for (const auto& stages : stages_of_peers(4, ends.size())) {
      if (!keeps_pins(stages, question.pins)) continue;
      for (const std::size_t m : question.micro_batches) {
        const auto count = static_cast<double>(m);
        double fill = 0;
        double pace = 0;
        bool has_groups = most == 1;
        StageTime before;
        for (std::size_t s = 0; s < ends.size(); ++s) {
          const std::size_t first = s == 0 ? 0 : ends[s - 1];
          const StageTime own = stage_time(question, first, ends[s], stages[s], m, most);
          has_groups = has_groups || own.members > 1;
          fill += own.seconds / count;
          pace = std::max(pace, own.seconds / count);
          if (s > 0) {
            const auto links = static_cast<double>(
                std::min(stages[s - 1].size() / before.members, stages[s].size() / own.members));
            const auto few = std::min(before.members, own.members);
            const auto copies = (std::max(before.members, own.members) + few - 1) / few;
            const double bytes =
                4 * question.layers[first].inputs * static_cast<double>(question.samples) / count;
            const double t = worst_link(question.site, stages[s - 1], stages[s])
                                 .seconds(bytes * static_cast<double>(copies) / links);
            fill += 2 * t;
            pace = std::max(pace, t);
          }
          before = own;
        }
        if (has_groups) least = std::min(least, fill + (count - 1) * pace);
      }
    }
  }
  return least;
}

}  // namespace

TEST_CASE("a group takes the time of its passes and sums") {
  // Four peers of 1 GFLOP/s, links of 1 ms and 4 MB/s: a float takes a microsecond.
  SplitSite site{.peers = std::vector<SplitPeer>(4, {"", 1e9, 0})};
  site.links.assign(4, std::vector<SplitLink>(4, {1e-3, 4e6}));
  // Every member does 3000 of the layer's 8000 operations itself and has 1000 of its 3000 weights.
  // All other operations and weights are shared.
  const SplitLayer layer{.operations = 8e3,
                         .weights = 3000,
                         .inputs = 300,
                         .outputs = 200,
                         .units = {{5e3, 2000, 48, 0, 200}},
                         .slices = 24};
  const std::vector<SplitLayer> own = in_stage({&layer, 1}, 0, 1);
  const SplitBatch batch{.samples = 40, .micro_batches = 4};
  const auto cost = [&](std::size_t peers, std::size_t ways) {
    std::vector<std::size_t> all{0, 1, 2, 3};
    all.resize(peers);
    return layer_cost(own[0], {SplitKind::slices, 0, ways}, group_of(site, all), batch,
                      GatherRounds::ring);
  };
  // Three members make 4 passes of 10 samples, and each member has 8 slices.
  const SplitCost three = cost(3, 3);
  CHECK(three.compute_s == Approx(4 * 3 * 10 * (3e3 + 5e3 / 3) / 1e9));
  // The first member sends the others their samples. The sum of outputs takes four messages.
  CHECK(three.activations_s == Approx(4 * (1e-3 + 2 * 3000e-6 + 4 * (1e-3 + 2000e-6 / 3))));
  // Three members sum the weights that all of them have. There is no other group.
  CHECK(three.weights_s == Approx(4 * (1e-3 + 1000e-6 / 3)));
  // Two groups of two take two passes each. All peers sum the common weights, and two peers sum
  // each half.
  const SplitCost two = cost(4, 2);
  CHECK(two.compute_s == Approx(2 * 3 * 10 * (3e3 + 5e3 / 2) / 1e9));
  CHECK(two.activations_s == Approx(2 * (1e-3 + 3000e-6 + 2 * (1e-3 + 2000e-6 / 2))));
  CHECK(two.weights_s == Approx(6 * (1e-3 + 1000e-6 / 4) + 2 * (1e-3 + 1000e-6 / 2)));
  // Alone, each peer has the whole layer.
  const SplitCost one = cost(4, 1);
  CHECK(one.compute_s == Approx(3 * 10 * 8e3 / 1e9));
  CHECK(one.activations_s == 0);
  CHECK(one.weights_s == Approx(6 * (1e-3 + 3000e-6 / 4)));
}

TEST_CASE("statistics of a batch norm cost the same for any number of samples") {
  SplitSite site{.peers = std::vector<SplitPeer>(3, {"", 1e9, 0})};
  site.links.assign(3, std::vector<SplitLink>(3, {1e-3, 4e6}));
  const SplitLayer layer{
      .operations = 1,
      .weights = 1,
      .units = {{.grains = 24, .has_strips = true},
                {.grains = 24, .statistics = 30, .has_strips = true, .takes_strips = true}},
      .slices = 24};
  const std::vector<SplitLayer> own = in_stage({&layer, 1}, 0, 1);
  for (const std::size_t samples : {3, 300}) {
    const SplitCost cost = layer_cost(own[0], {SplitKind::slices, 0, 3}, group_of(site, {0, 1, 2}),
                                      {.samples = samples, .micro_batches = 1}, GatherRounds::ring);
    // One sum covers the values of all three members, the other only those of one member. Each sum
    // takes four messages.
    CHECK(cost.activations_s == Approx(4 * (1e-3 + 90e-6 / 3) + 4 * (1e-3 + 30e-6 / 3)));
  }
}

TEST_CASE("pipelines with groups are planned as brute force finds them") {
  for (const bool all_near : {false, true}) {
    for (const auto& [samples, alike] :
         {std::pair<std::size_t, bool>{64, false}, {8, false}, {2, false}, {8, true}}) {
      SplitQuestion question = grouped_question(all_near, samples);
      // A stage is planned with several groups only if its peers are alike.
      for (SplitPeer& peer : question.site.peers) {
        if (alike) peer.operations_per_s = 4e9;
      }
      for (std::size_t most = 1; most <= 4; ++most) {
        INFO(samples << (all_near ? " near" : " far") << ", groups of " << most);
        const std::vector<SplitPlan> found = best_plans(question, {.group = most, .stages_max = 4});
        REQUIRE(!found.empty());
        CHECK(found.front().seconds == Approx(least_seconds(question, most)).epsilon(1e-9));
        CHECK(found.front().has_groups() == (most > 1));
      }
    }
  }
}

TEST_CASE("pinned peers are planned for their stages as brute force finds it") {
  using Pins = std::vector<SplitPin>;
  std::size_t planned = 0;
  for (const Pins& pins : {Pins{{3, 0}}, Pins{{0, 1}, {3, 0}}, Pins{{2, 2}}, Pins{{1, 0}, {2, 0}},
                           Pins{{0, 3}, {1, 2}, {2, 1}, {3, 0}}, Pins{{0, 4}}}) {
    for (const bool all_near : {false, true}) {
      for (std::size_t most = 1; most <= 3; ++most) {
        SplitQuestion question = grouped_question(all_near, 8);
        question.pins = pins;
        INFO("peer " << pins.front().peer << " at " << pins.front().at << " of " << pins.size()
                     << (all_near ? " near" : " far") << ", groups of " << most);
        const std::vector<SplitPlan> found = best_plans(question, {.group = most, .stages_max = 4});
        const double least = least_seconds(question, most);
        REQUIRE(found.empty() == (least == impossible));
        if (found.empty()) continue;
        ++planned;
        CHECK(found.front().seconds == Approx(least).epsilon(1e-9));
        for (const SplitPlan& plan : found) CHECK(keeps_pins(peers_of_stages(plan), pins));
      }
    }
  }
  CHECK(planned > 20);
}

TEST_CASE("pins hold where not every order of the peers is tried") {
  SplitQuestion question = grouped_question(true, 8);
  question.site.peers = std::vector<SplitPeer>(7, {"", 4e9, 0});
  for (std::size_t i = 0; i < 7; ++i) {
    question.site.peers[i].operations_per_s += 1e8 * static_cast<double>(i);
  }
  question.site.links.assign(7, std::vector<SplitLink>(7, {1e-4, 125e6}));
  using Pins = std::vector<SplitPin>;
  // Pins that agree with the order of speed, and pins that do not. Some leave stages between them
  // for other peers to fill.
  for (const Pins& pins : {Pins{{0, 0}, {6, 2}}, Pins{{6, 0}, {5, 2}, {4, 2}}, Pins{{3, 3}},
                           Pins{{0, 3}, {1, 2}, {2, 1}, {3, 0}}}) {
    question.pins = pins;
    for (const bool all_peers : {false, true}) {
      INFO("peer " << pins.front().peer << " at " << pins.front().at
                   << (all_peers ? ", with all peers" : ""));
      const SplitChoice choice{.all_peers = all_peers, .group = 1, .stages_max = 4};
      const std::vector<SplitPlan> found = best_plans(question, choice);
      REQUIRE(!found.empty());
      for (const SplitPlan& plan : found) CHECK(keeps_pins(peers_of_stages(plan), pins));
    }
  }
}

TEST_CASE("a group carries a layer that is too large for one peer, and leaves far peers out") {
  SplitQuestion question = grouped_question(false, 8);
  const double whole = question.bytes_per_sliced_weight * question.layers[2].weights;
  for (SplitPeer& peer : question.site.peers) peer.memory_bytes = 0.6 * whole;
  CHECK(best_plans(question, {.group = 1, .stages_max = 4}).empty());
  const std::vector<SplitPlan> found = best_plans(question, {.group = 2, .stages_max = 4});
  REQUIRE(!found.empty());
  const SplitPlan& best = found.front();
  const PlannedLayer& wide = best.layers[2];
  CHECK(best.groups[wide.state.group].peers == std::vector<std::size_t>{0, 1});
  CHECK(wide.shares[0].end == 12);
  CHECK(wide.shares[1].end == 24);
  for (const double bytes : best.memory_bytes) CHECK(bytes <= 0.6 * whole);
  CHECK(best.memory_bytes[0] > 0.5 * whole);
  CHECK_FALSE(best.uses(3));
}

}  // namespace gv
