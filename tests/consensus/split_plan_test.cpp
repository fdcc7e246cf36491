// How peers of different speeds share the work of layers: costs, brute force, and published tables.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "consensus/split/plan_search.hpp"
#include "tests/consensus/unlike_peers.hpp"

namespace gv {
namespace {

std::vector<SplitGroup> fastest_of(const SplitSite& site) {
  std::vector<SplitGroup> groups;
  std::vector<std::size_t> peers;
  for (std::size_t peer = 0; peer < site.peers.size(); ++peer) {
    peers.push_back(peer);
    groups.push_back(group_of(site, peers));
  }
  return groups;
}

/// The result of trying every state of every layer, which covers all plans that the search may
/// choose.
struct Tried {
  std::size_t plans = 0;
  std::vector<double> seconds;  ///< Times of the two best plans in seconds.
};

/// Tries every plan. With `hybrids`, also tries states that divide a group into several blocks.
Tried brute_force(const SplitQuestion& question, const std::vector<SplitGroup>& groups,
                  bool hybrids) {
  std::vector<std::vector<SplitState>> states;
  for (const SplitLayer& layer : question.layers) {
    states.emplace_back();
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const SplitState& state : states_of(layer, groups[g], g, {question.samples})) {
        const bool is_hybrid = state.ways > 1 && state.ways < groups[g].size();
        if (hybrids || !is_hybrid) states.back().push_back(state);
      }
    }
  }
  Tried tried;
  std::vector<std::size_t> at(states.size(), 0);
  for (bool more = true; more;) {
    std::vector<SplitState> plan;
    for (std::size_t i = 0; i < at.size(); ++i) plan.push_back(states[i][at[i]]);
    const SplitPlan made = plan_of(question, groups, plan);
    bool fits = true;
    for (std::size_t i = 0; i < question.site.peers.size(); ++i) {
      const double limit = question.site.peers[i].memory_bytes;
      fits = fits && (limit == 0 || made.memory_bytes[i] <= limit);
    }
    ++tried.plans;
    if (fits) tried.seconds.push_back(made.seconds);
    more = false;
    for (std::size_t i = 0; i < at.size() && !more; ++i) {
      more = ++at[i] < states[i].size();
      if (!more) at[i] = 0;
    }
  }
  std::ranges::sort(tried.seconds);
  tried.seconds.resize(std::min<std::size_t>(tried.seconds.size(), 2));
  return tried;
}

SplitQuestion question_of(bool all_near, std::size_t samples) {
  SplitQuestion question{.layers = network(), .site = four_peers(all_near), .samples = samples};
  question.groups = fastest_of(question.site);
  return question;
}

double ms(double seconds) { return 1e3 * seconds; }

double step_ms(const SplitQuestion& question, const std::vector<SplitState>& states) {
  return ms(plan_of(question, question.groups, states).seconds);
}

constexpr SplitKind samples = SplitKind::samples;
constexpr SplitKind model = SplitKind::model;
constexpr SplitKind rows = SplitKind::rows;

}  // namespace

TEST_CASE("plans of four unlike peers cost what the formulas say") {
  const SplitQuestion far = question_of(false, 64);
  const auto all = [](SplitKind kind, std::size_t group, std::size_t ways) {
    return std::vector<SplitState>(4, {kind, group, ways});
  };
  CHECK(step_ms(far, all(samples, 0, 1)) == Approx(1321.5).margin(0.05));
  CHECK(step_ms(far, all(samples, 1, 1)) == Approx(1073.5).margin(0.05));
  CHECK(step_ms(far, all(samples, 2, 1)) == Approx(6061.8).margin(0.05));
  CHECK(step_ms(far, all(samples, 3, 1)) == Approx(6723.1).margin(0.05));
  CHECK(step_ms(far, {{rows, 1, 2}, {rows, 1, 2}, {model, 1, 2}, {model, 1, 2}}) ==
        Approx(695.4).margin(0.05));
  CHECK(step_ms(far, {{samples, 3, 1}, {samples, 3, 1}, {model, 1, 2}, {model, 1, 2}}) ==
        Approx(1006.6).margin(0.05));
  CHECK(step_ms(far, {{samples, 3, 1}, {samples, 3, 1}, {model, 3, 4}, {model, 3, 4}}) ==
        Approx(990.6).margin(0.05));
  CHECK(step_ms(question_of(true, 64), all(samples, 3, 1)) == Approx(1115.9).margin(0.05));
  CHECK(step_ms(question_of(true, 8), all(samples, 0, 1)) == Approx(165.2).margin(0.05));
  CHECK(step_ms(question_of(true, 2), all(samples, 0, 1)) == Approx(41.3).margin(0.05));
}

TEST_CASE("the search finds the plans that brute force finds") {
  struct Known {
    bool all_near;
    std::size_t samples;
    double best_ms;
  };
  for (const Known known :
       {Known{false, 64, 689.95}, {true, 64, 533.73}, {true, 8, 74.76}, {true, 2, 21.09}}) {
    INFO(known.samples << (known.all_near ? " near" : " far"));
    const SplitQuestion question = question_of(known.all_near, known.samples);
    const Tried pure = brute_force(question, question.groups, false);
    if (known.samples == 64) CHECK(pure.plans == 4900);
    CHECK(ms(pure.seconds[0]) == Approx(known.best_ms).margin(0.005));
    const Tried tried = brute_force(question, question.groups, true);
    const std::vector<SplitPlan> found = best_plans(question, {});
    REQUIRE(found.size() == 2);
    CHECK(found[0].seconds == Approx(tried.seconds[0]).epsilon(1e-12));
    CHECK(found[1].seconds == Approx(tried.seconds[1]).epsilon(1e-12));
    CHECK(ms(found[0].seconds) < known.best_ms + 0.005);
  }
}

TEST_CASE("the second best plan differs in the last layer alone") {
  const SplitQuestion question = question_of(false, 64);
  const std::vector<SplitPlan> found = best_plans(question, {});
  REQUIRE(found.size() == 2);
  CHECK(ms(found[1].seconds) == Approx(690.19).margin(0.005));
  for (std::size_t i = 0; i < 3; ++i) CHECK(found[0].layers[i].state == found[1].layers[i].state);
  const PlannedLayer& last = found[1].layers[3];
  CHECK(found[1].groups[last.state.group].peers == std::vector<std::size_t>{0});
}

TEST_CASE("a plan leaves out peers that only slow the others") {
  SplitQuestion question = question_of(false, 64);
  question.groups.clear();
  const SplitPlan far = best_plans(question, {}).front();
  CHECK(far.uses(0));
  CHECK(far.uses(1));
  CHECK_FALSE(far.uses(2));
  CHECK_FALSE(far.uses(3));
  question.site = four_peers(true);
  CHECK(best_plans(question, {}).front().uses(3));
  const SplitChoice only_samples{.may_split_layers = false, .one_group = true};
  question.site = four_peers(false);
  const SplitPlan samples_only = best_plans(question, only_samples).front();
  CHECK(samples_only.groups.size() == 1);
  CHECK_FALSE(samples_only.uses(2));
}

TEST_CASE("the search is exact where memory is short") {
  SplitQuestion question = question_of(true, 64);
  const double alone =
      plan_of(question, question.groups, std::vector<SplitState>(4)).memory_bytes[0];
  for (const double part : {0.4, 0.6, 0.9}) {
    INFO(part);
    for (SplitPeer& peer : question.site.peers) peer.memory_bytes = part * alone;
    const Tried tried = brute_force(question, question.groups, true);
    const std::vector<SplitPlan> found = best_plans(question, {});
    REQUIRE(tried.seconds.size() == found.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i].seconds == Approx(tried.seconds[i]).epsilon(1e-12));
      for (const double bytes : found[i].memory_bytes) CHECK(bytes <= part * alone);
    }
  }
  for (SplitPeer& peer : question.site.peers) peer.memory_bytes = 1000;
  CHECK(best_plans(question, {}).empty());
}

TEST_CASE("a memory limit that the whole model cannot exceed takes no steps") {
  SplitQuestion question = question_of(true, 64);
  question.micro_batches = {4, 8};
  const SplitChoice choice{.stages_max = 3};
  const auto steps = [&](double limit) {
    for (SplitPeer& peer : question.site.peers) peer.memory_bytes = limit;
    SearchBudget unlimited;
    CHECK(PlanSearch(question).best(choice, unlimited).size() == 2);
    return unlimited.taken();
  };
  const double alone =
      plan_of(question, question.groups, std::vector<SplitState>(4)).memory_bytes[0];
  CHECK(steps(100 * alone) == steps(0));
  CHECK(steps(alone / 2) != steps(0));
}

TEST_CASE("a search whose steps are used up gives plans that fit or none") {
  SplitQuestion question = question_of(false, 64);
  question.micro_batches = {4, 8};
  const SplitChoice choice{.stages_max = 3};
  SearchBudget unlimited;
  const std::vector<SplitPlan> best = PlanSearch(question).best(choice, unlimited);
  std::size_t found = 0;
  for (std::uint64_t part = 0; part < 10; ++part) {
    SearchBudget budget(unlimited.taken() * part / 10);
    const std::vector<SplitPlan> plans = PlanSearch(question).best(choice, budget);
    CHECK(budget.is_spent());
    CHECK(budget.taken() <= unlimited.taken() * part / 10);
    found += plans.empty() ? 0 : 1;
    for (const SplitPlan& plan : plans) {
      CHECK(plan.layers.size() == question.layers.size());
      CHECK(plan.stages.back().last == question.layers.size());
      CHECK(plan.seconds >= best.front().seconds);
    }
  }
  CHECK(found > 0);
}

TEST_CASE("a single peer keeps a pin to the only stage") {
  SplitQuestion question = question_of(false, 64);
  question.site.peers.resize(1);
  question.groups.clear();
  question.pins = {{0, 0}};
  CHECK(best_plans(question, {}).size() == 1);
  question.pins = {{0, 1}};
  CHECK(best_plans(question, {}).empty());
}

TEST_CASE("layers that share a table are shared alike") {
  SplitQuestion question = question_of(true, 64);
  question.layers[3].tied_to = 2;
  const SplitPlan best = best_plans(question, {}).front();
  CHECK(best.layers[2].state == best.layers[3].state);
  CHECK(best.seconds > best_plans(question_of(true, 64), {}).front().seconds);
}

namespace {

/// The shortest time of two stages on any peers, with the groups inside the stages tried one by
/// one.
double least_of_two_stages(const SplitQuestion& question) {
  std::vector<double> tried;
  const auto part = [&](std::size_t first, std::size_t last, const std::vector<std::size_t>& peers,
                        std::size_t m) {
    double least = 1e9;
    for (const SplitGroup& group : candidate_groups(question.site, peers)) {
      const bool lacks_pinned = std::ranges::any_of(question.pins, [&](const SplitPin& pin) {
        return std::ranges::count(peers, pin.peer) != std::ranges::count(group.peers, pin.peer);
      });
      if (lacks_pinned) continue;
      double sum = 0;
      for (std::size_t i = first; i < last; ++i) {
        sum += layer_cost(question.layers[i], {}, group, {64, m}, GatherRounds::ring).seconds();
      }
      least = std::min(least, sum);
    }
    return least;
  };
  for (const auto& stages : stages_of_peers(4, 2)) {
    if (!keeps_pins(stages, question.pins)) continue;
    for (const std::size_t m : question.micro_batches) {
      for (std::size_t cut = 1; cut < 4; ++cut) {
        const auto count = static_cast<double>(m);
        const double x = part(0, cut, stages[0], m) / count;
        const double y = part(cut, 4, stages[1], m) / count;
        const auto links = static_cast<double>(std::min(stages[0].size(), stages[1].size()));
        const double t = worst_link(question.site, stages[0], stages[1])
                             .seconds(64 * question.layers[cut].inputs * 4 / count / links);
        tried.push_back(x + y + 2 * t + (count - 1) * std::max({x, y, t}));
      }
    }
  }
  return *std::ranges::min_element(tried);
}

}  // namespace

TEST_CASE("plans with stages are the best of all cuts and all peers in every order") {
  SplitQuestion question = question_of(false, 64);
  question.micro_batches = {4, 8};
  const SplitChoice choice{
      .may_split_layers = false, .one_group = true, .stages_min = 2, .stages_max = 2};
  const std::vector<SplitPlan> found = best_plans(question, choice);
  REQUIRE(found.size() == 2);
  CHECK(found.front().seconds == Approx(least_of_two_stages(question)).epsilon(1e-9));
  CHECK(found.front().stages.size() == 2);
  CHECK(found.front().waiting_s > 0);
}

TEST_CASE("pinned peers take part in every layer of their stages in the best plans") {
  SplitQuestion question = question_of(false, 64);
  question.micro_batches = {4, 8};
  const SplitChoice choice{.may_split_layers = false, .one_group = true, .stages_max = 2};
  using Pins = std::vector<SplitPin>;
  for (const Pins& pins : {Pins{{3, 0}}, Pins{{3, 1}, {0, 0}}, Pins{{0, 1}, {1, 0}}, Pins{{2, 1}},
                           Pins{{2, 0}, {3, 0}}}) {
    question.pins = pins;
    INFO("peer " << pins.front().peer << " at " << pins.front().at << " of " << pins.size());
    const std::vector<SplitPlan> found = best_plans(question, choice);
    REQUIRE(!found.empty());
    // A peer that is idle in its stage affects only the stage's links. Among plans that are
    // otherwise alike the first one is kept.
    const double least = least_of_two_stages(question);
    CHECK(found.front().seconds > (1 - 1e-9) * least);
    CHECK(found.front().seconds < 1.05 * least);
    for (const SplitPlan& plan : found) CHECK(keeps_pins(peers_of_stages(plan), pins));
  }
  // No plan has a third stage here.
  question.pins = {{0, 2}};
  CHECK(best_plans(question, choice).empty());
}

namespace {

/// AlexNet's layers for the tables of Gholami 2018.
std::vector<SplitLayer> alexnet() {
  struct Shape {
    double channels, side, out_channels, out_side, kernel;
  };
  std::vector<SplitLayer> layers;
  for (const Shape s : {Shape{3, 227, 96, 55, 11},
                        {96, 27, 256, 27, 5},
                        {256, 13, 384, 13, 3},
                        {384, 13, 384, 13, 3},
                        {384, 13, 256, 13, 3}}) {
    layers.push_back({.weights = s.channels * s.out_channels * s.kernel * s.kernel,
                      .inputs = s.channels * s.side * s.side,
                      .outputs = s.out_channels * s.out_side * s.out_side,
                      .model_grains = 4096,
                      .rows = 4096,
                      .halo = std::floor(s.kernel / 2) * s.channels * s.side,
                      .halo_messages = 1});
  }
  for (const auto& [in, out] : {std::pair(9216.0, 4096.0), {4096, 4096}, {4096, 1000}}) {
    layers.push_back({.weights = in * out, .inputs = in, .outputs = out, .model_grains = 4096});
  }
  return layers;
}

enum class Cut { all, dense, dense_and_rows };

/// The time of all messages in a step on `peers` peers in groups of `ways`, in ms. Collectives have
/// logarithmic latency, with 2 us and 6 GB/s. Gradients of the inputs are summed for all layers but
/// the first.
double words_ms(double batch, std::size_t peers, std::size_t ways, Cut cut) {
  const SplitGroup group{.peers = std::vector<std::size_t>(peers),
                         .speeds = std::vector<double>(peers, 1.0),
                         .in_blocks = std::vector<SplitLink>(peers, {2e-6, 6e9})};
  const SplitBatch all{.samples = static_cast<std::size_t>(batch)};
  double seconds = 0;
  const std::vector<SplitLayer> layers = alexnet();
  for (std::size_t i = 0; i < layers.size(); ++i) {
    SplitState state;
    if (ways > 1 && (i >= 5 || cut == Cut::all)) state = {SplitKind::model, 0, ways};
    if (ways > 1 && i < 5 && cut == Cut::dense_and_rows) state = {SplitKind::rows, 0, ways};
    seconds += layer_cost(layers[i], state, group, all, GatherRounds::doubling).seconds();
    if (i > 0 && state.kind == SplitKind::model) {
      const SplitCost inputs = edge_cost(layers[i].inputs, state, group, state, group, group, all,
                                         GatherRounds::doubling);
      seconds += inputs.seconds();
    }
  }
  return ms(seconds);
}

}  // namespace

TEST_CASE("the published tables of integrated parallelism come out of the formulas") {
  double weights = 0;
  for (const SplitLayer& layer : alexnet()) weights += layer.weights;
  CHECK(weights == 62367776);
  const std::vector<std::size_t> ways{1, 2, 4, 8, 16, 32, 64, 512};
  const std::vector<double> all{83.283, 44.9, 30.4, 32.6, 52.6, 100, 200, 1609};
  const std::vector<double> dense{83.283, 44.3, 25.0, 15.7, 11.8, 11.231, 13.8, 65.3};
  for (std::size_t i = 0; i < ways.size(); ++i) {
    INFO(ways[i]);
    CHECK(words_ms(2048, 512, ways[i], Cut::all) == Approx(all[i]).epsilon(0.005));
    CHECK(words_ms(2048, 512, ways[i], Cut::dense) == Approx(dense[i]).epsilon(0.005));
  }
  // The gain from cutting dense layers grows with the number of peers.
  const std::vector<std::pair<std::size_t, double>> gains{
      {8, 1.98}, {32, 3.17}, {128, 5.01}, {512, 7.42}};
  for (const auto& [peers, gain] : gains) {
    double least = words_ms(2048, peers, 1, Cut::dense);
    const double batch_only = least;
    for (std::size_t w = 2; w <= peers; w *= 2) {
      least = std::min(least, words_ms(2048, peers, w, Cut::dense));
    }
    CHECK(batch_only / least == Approx(gain).epsilon(0.005));
  }
}

TEST_CASE("rows go on where there are no more samples to share") {
  // From here on more than 512 peers share 512 samples. If only samples are divided, the time stays
  // at 83.3 ms.
  CHECK(words_ms(512, 512, 1, Cut::dense) == Approx(83.28).epsilon(0.001));
  double before = words_ms(512, 512, 1, Cut::dense);
  const std::vector<std::pair<std::size_t, double>> known{
      {1024, 44.405}, {2048, 24.951}, {4096, 15.242}};
  for (const auto& [peers, expected] : known) {
    const double words = words_ms(512, peers, peers / 512, Cut::dense_and_rows);
    // The reference sends back rows of outputs, although gradients of rows of inputs are needed.
    CHECK(words == Approx(expected).epsilon(0.002));
    CHECK(words < before);
    before = words;
  }
}

TEST_CASE("the least words of a dense layer are sent by about sqrt(2 W P / (B (d_out + 2 d_in)))") {
  const auto least = [](double in, double out, std::size_t batch, std::size_t peers) {
    const SplitLayer layer{.weights = in * out, .inputs = in, .outputs = out, .model_grains = 4096};
    const SplitGroup group{.peers = std::vector<std::size_t>(peers),
                           .speeds = std::vector<double>(peers, 1.0),
                           .in_blocks = std::vector<SplitLink>(peers, {0, 1e9})};
    std::size_t best = 1;
    double fewest = 1e300;
    for (std::size_t ways = 1; ways <= peers; ways *= 2) {
      const SplitState state{ways > 1 ? SplitKind::model : SplitKind::samples, 0, ways};
      SplitCost cost = layer_cost(layer, state, group, {batch}, GatherRounds::ring);
      if (ways > 1) {
        cost += edge_cost(in, state, group, state, group, group, {batch}, GatherRounds::ring);
      }
      if (cost.bytes < fewest) best = ways;
      fewest = std::min(fewest, cost.bytes);
    }
    return best;
  };
  CHECK(least(4096, 4096, 2048, 512) == 32);
  CHECK(least(784, 256, 256, 8) == 2);
}

TEST_CASE("clusters are cut where latency grows more than three times") {
  const std::vector<std::size_t> all{0, 1, 2, 3};
  CHECK(clusters_of(four_peers(false), all) ==
        std::vector<std::vector<std::size_t>>{{0, 1}, {2, 3}});
  CHECK(clusters_of(four_peers(true), all) == std::vector<std::vector<std::size_t>>{{0, 1, 2, 3}});
  std::vector<std::vector<std::size_t>> groups;
  for (const SplitGroup& group : candidate_groups(four_peers(false), all)) {
    groups.push_back(group.peers);
  }
  CHECK(groups ==
        std::vector<std::vector<std::size_t>>{{0}, {0, 1}, {0, 1, 2}, {0, 1, 2, 3}, {2}, {2, 3}});
}

TEST_CASE("grains go to unlike peers by largest remainders") {
  const std::vector<double> speeds{8, 8, 4, 2};
  CHECK(largest_remainders(1024, speeds) == std::vector<std::size_t>{373, 372, 186, 93});
  CHECK(largest_remainders(28, speeds) == std::vector<std::size_t>{10, 10, 5, 3});
  CHECK(largest_remainders(10, speeds) == std::vector<std::size_t>{4, 3, 2, 1});
}

}  // namespace gv
