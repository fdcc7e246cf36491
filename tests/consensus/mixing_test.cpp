// Mixing rules obey the laws that their traits promise, and refuse settings that conflict.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/consensus/mixing_lab.hpp"
#include "tests/consensus/value_swarm.hpp"

namespace gv {
namespace {

using Vector = MixingLab::Vector;

}  // namespace

TEST_CASE("without steps the mean stays where a rule says so", "[unit]") {
  for (const std::size_t peers : {2UL, 5UL, 8UL}) {
    for (const MixRule& rule : all_rules(peers)) {
      if (!traits_of(rule).conserves_mean) continue;
      MixingLab lab(rule, drawn_models(peers, 6));
      const Vector before = lab.mean();
      lab.rounds(30);
      INFO(name_of(rule) << " of " << peers);
      CHECK(lab.refused() == 0);
      CHECK(largest_difference(lab.mean(), before) < rounding);
    }
  }
}

TEST_CASE("equal models with equal gradients stay equal to the bit and step as one", "[unit]") {
  for (const std::size_t peers : {2UL, 5UL, 8UL}) {
    for (const MixRule& rule : all_rules(peers)) {
      if (!traits_of(rule).keeps_equal) continue;
      const Vector start = drawn_models(1, 6).front();
      MixingLab lab(rule, std::vector<Vector>(peers, start));
      const auto gradient = pulls_to(std::vector<Vector>(peers, Vector(6, 1.0)));
      Vector serial = start;
      for (int round = 0; round < 20; ++round) {
        lab.round(gradient, 0.1);
        for (std::size_t k = 0; k < 6; ++k) serial[k] -= 0.1 * (serial[k] - 1.0);
      }
      INFO(name_of(rule) << " of " << peers);
      for (const Vector& x : lab.models()) CHECK(x == lab.models().front());
      // Some rules do not step like plain descent: those with their own momentum, replicas (their
      // model is assembled from differences), and slowmo (its outer step divides by the learning
      // rate).
      const bool plain = rule.correction == MixCorrection::none && rule.outer == MixOuter::none &&
                         rule.kind != MixKind::noloco && rule.kind != MixKind::downpour &&
                         rule.memory == MixMemory::none;
      if (plain) CHECK(lab.models().front() == serial);
    }
  }
}

TEST_CASE("a peer alone learns as if there were no rule", "[unit]") {
  for (const MixRule& rule : all_rules(1)) {
    const MixTraits traits = traits_of(rule);
    const bool plain = !traits.plain_steps && rule.kind != MixKind::noloco &&
                       rule.outer == MixOuter::none && rule.kind != MixKind::downpour;
    if (!plain) continue;
    MixingLab lab(rule, {Vector{1, -2, 3}});
    Vector serial{1, -2, 3};
    for (int round = 0; round < 20; ++round) {
      lab.round(pulls_to({Vector(3, 0.5)}), 0.1);
      for (double& value : serial) value -= 0.1 * (value - 0.5);
    }
    INFO(name_of(rule));
    CHECK(largest_difference(lab.models().front(), serial) < rounding);
  }
}

TEST_CASE("a mixer is a value: copies go on alike and equal states have equal hashes", "[unit]") {
  constexpr std::size_t peers = 4;
  const auto gradient = pulls_to(drawn_models(peers, 6, 9));
  for (const MixRule& rule : all_rules(peers)) {
    INFO(name_of(rule));
    MixingLab lab(rule, drawn_models(peers, 6));
    MixingLab same = lab;
    MixingLab other(rule, drawn_models(peers, 6, 8));
    for (int round = 0; round < 8; ++round) {
      const std::vector<Mixer<double>> before = lab.mixers();
      lab.round(gradient, 0.1);
      CHECK(same.mixers() == before);
      same.round(gradient, 0.1);
      other.round(gradient, 0.1);
      CHECK(lab.mixers() == same.mixers());
      CHECK_FALSE(lab.mixers() == other.mixers());
      for (std::size_t i = 0; i < peers; ++i) {
        const Mixer<double>& mixer = lab.mixers()[i];
        const std::uint64_t hash = hash_of(mixer, Time{});
        CHECK(hash == hash_of(same.mixers()[i], Time{}));
        for (const Mixer<double>* rival : {&before[i], &std::as_const(other.mixers()[i])}) {
          CHECK((mixer == *rival) == (hash == hash_of(*rival, Time{})));
        }
      }
    }
  }
}

TEST_CASE("messages are as long as they are said to be and the same for the same seed", "[unit]") {
  for (const MixRule& rule : all_rules(5)) {
    MixingLab one(rule, drawn_models(5, 6));
    MixingLab other(rule, drawn_models(5, 6));
    const auto gradient = pulls_to(drawn_models(5, 6, 3));
    one.rounds(5, gradient, 0.05);
    other.rounds(5, gradient, 0.05);
    INFO(name_of(rule));
    CHECK(one.models() == other.models());
    Mixer<double>& mixer = one.mixers().front();
    Vector x = one.models().front();
    mixer.begin_round(5, x);
    mixer.end_steps(x, 0.05, 1);
    for (const MixMessage& message : mixer.messages(5, x)) {
      CHECK(message.bytes->size() == mix_message_bytes<double>(rule, 6, 5));
    }
  }
}

TEST_CASE("a huge message leaves the model and all that is kept within the bound", "[unit]") {
  constexpr double bound = 1000;
  constexpr double rate = 0.1;
  constexpr double steepest = 2 * bound / rate;
  struct Kept {
    MixRule rule;
    std::string_view name;
    double most;
  };
  const Topology pair{.kind = TopologyKind::complete, .lazy = true};
  const std::vector<Kept> all = {
      {{.topology = pair}, "", 0},
      {{.topology = pair, .kind = MixKind::push_sum}, "numerator", bound},
      {{.partners = Partners::pairs, .kind = MixKind::companion}, "companion", bound},
      {{.topology = pair, .kind = MixKind::noloco, .gamma = 0.7, .momentum = 0.5}, "slow", bound},
      {{.topology = pair, .memory = MixMemory::difference}, "drift", 2 * bound},
      {{.topology = pair, .correction = MixCorrection::d2}, "correction", bound},
      {{.topology = pair, .correction = MixCorrection::quasi_global}, "momentum", steepest},
      {{.topology = pair, .correction = MixCorrection::decentlam}, "momentum", steepest},
      {{.topology = pair, .correction = MixCorrection::tracking}, "tracker", steepest},
      {{.topology = pair, .kind = MixKind::noloco, .gamma = 0.7, .momentum = 0.5},
       "outer",
       2 * bound},
      {{.topology = pair, .outer = MixOuter::slowmo, .outer_every = 2}, "slow", bound},
      {{.topology = pair, .outer = MixOuter::slowmo, .outer_every = 2}, "outer", steepest}};
  const auto is_within = [](std::span<const double> values, double most) {
    return std::ranges::all_of(values, [&](double value) { return std::abs(value) <= most; });
  };
  const std::vector<PeerId> order = order_of(2);
  for (const Kept& kept : all) {
    INFO(name_of(kept.rule));
    Vector x{1, -2, 3};
    Mixer<double> ours(kept.rule, x.size(), 1);
    ours.begin_generation(0, order, 1, x);
    bool was_moved = false;
    for (std::uint64_t round = 0; round < 8; ++round) {
      ours.begin_round(round, x);
      Vector slope{0.1, 0.1, 0.1};
      if (ours.directs()) ours.direct(slope);
      for (std::size_t k = 0; k < x.size(); ++k) x[k] -= rate * slope[k];
      ours.end_steps(x, rate, 1);
      // The learner keeps its model within the bound after its own steps.
      for (double& value : x) value = std::clamp(value, -bound, bound);
      ours.messages(round, x);
      // In each round the neighbour claims that its model and its gradient are huge.
      Vector theirs{1e30, -1e30, 1e30};
      Mixer<double> neighbour(kept.rule, x.size(), 1);
      neighbour.begin_generation(1, order, 1, theirs);
      neighbour.begin_round(round, theirs);
      Vector huge(3, 1e30);
      if (neighbour.directs()) neighbour.direct(huge);
      neighbour.end_steps(theirs, rate, 1);
      ours.mix(round, x, neighbour.messages(round, theirs), bound);
      CHECK(is_within(x, bound));
      CHECK(is_within(ours.kept(kept.name), kept.most));
      was_moved = was_moved || !is_within(x, 100);
    }
    // A memory needs up to two rounds to learn a neighbour's model. Here the neighbour starts from
    // scratch in each round.
    if (kept.rule.memory == MixMemory::none) CHECK(was_moved);
  }
}

TEST_CASE("two early messages of eight do not get past a guard because the others are late",
          "[unit]") {
  constexpr std::size_t peers = 9;
  MixRule rule{.topology = {.kind = TopologyKind::complete},
               .guard = {.kind = GuardKind::self_centred_clip},
               .staleness = 1};
  const std::vector<PeerId> order = order_of(peers);
  const auto moved = [&](std::size_t arrive) {
    Vector x{1, -2, 3};
    const Vector before = x;
    Mixer<double> ours(rule, x.size(), 1);
    ours.begin_generation(0, order, 1, x);
    ours.end_steps(x, 0.1, 1);
    ours.messages(0, x);
    std::vector<MixMessage> arrived;
    for (std::size_t rank = 1; rank <= arrive; ++rank) {
      // The first two peers are hostile.
      Vector theirs(3, rank <= 2 ? 1e6 : 2.0);
      Mixer<double> neighbour(rule, x.size(), 1);
      neighbour.begin_generation(rank, order, 1, theirs);
      neighbour.end_steps(theirs, 0.1, 1);
      arrived.push_back(neighbour.messages(0, theirs).at(0));
    }
    ours.mix(0, x, arrived);
    return largest_difference(x, before);
  };
  CHECK(moved(2) == 0);
  CHECK(moved(3) == 0);
  CHECK(moved(4) > 0);
  CHECK(moved(4) < 10);
  CHECK(moved(8) > 0);
  CHECK(moved(8) < 10);
}

TEST_CASE("pieces of a model are averaged in turn", "[unit]") {
  MixRule rule{.topology = {.kind = TopologyKind::complete}, .fragments = 4};
  MixingLab lab(rule, drawn_models(4, 8));
  const std::vector<Vector> before = lab.models();
  const Vector mean = lab.mean();
  lab.round({}, 0);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t k = 0; k < 8; ++k) {
      CHECK(lab.models()[i][k] == Approx(k < 2 ? mean[k] : before[i][k]).margin(rounding));
    }
  }
  lab.rounds(3);
  for (const Vector& x : lab.models()) CHECK(largest_difference(x, mean) < rounding);
  rule.fragments = 1;
  MixingLab whole(rule, drawn_models(4, 8));
  whole.round({}, 0);
  for (std::size_t i = 0; i < 4; ++i) {
    CHECK(largest_difference(whole.models()[i], lab.models()[i]) < rounding);
  }
}

TEST_CASE("of a model in one piece the largest piece is the whole", "[unit]") {
  MixRule rule{.topology = {.kind = TopologyKind::exponential}};
  MixingLab whole(rule, drawn_models(6, 8));
  rule.fragment_order = FragmentOrder::largest;
  MixingLab pieces(rule, drawn_models(6, 8));
  const auto gradient = pulls_to(drawn_models(6, 8));
  whole.rounds(20, gradient, 0.1);
  pieces.rounds(20, gradient, 0.1);
  CHECK(whole.models() == pieces.models());
}

TEST_CASE("the piece that changed most is sent, and none waits for long", "[unit]") {
  MixRule rule{.topology = {.kind = TopologyKind::complete}, .fragments = 4};
  rule.fragment_order = FragmentOrder::largest;
  const std::size_t d = 8;
  MixingLab lab(rule, drawn_models(2, d));
  std::vector<std::size_t> last(4, 0);
  std::vector<std::size_t> times(4, 0);
  const auto gradient = [&](std::size_t, const Vector&) {
    Vector g(d, 0.001);
    g[4] = 1;
    return g;
  };
  for (std::size_t round = 1; round <= 200; ++round) {
    const Vector before = lab.models()[0];
    lab.round(gradient, 0.1);
    const auto sent = lab.mixers()[0].kept("sent");
    for (std::size_t piece = 0; piece < 4; ++piece) {
      const bool is_new =
          sent[2 * piece] == before[2 * piece] - 0.1 * gradient(0, before)[2 * piece];
      if (!is_new) continue;
      times[piece] += 1;
      last[piece] = round;
    }
    for (std::size_t piece = 0; round > 20 && piece < 4; ++piece) CHECK(round - last[piece] <= 16);
  }
  CHECK(times[2] > 100);
  CHECK(times[0] < 40);
  CHECK(lab.refused() == 0);
}

TEST_CASE("pieces by size bring models together as those in turn do", "[unit]") {
  MixRule rule{.topology = {.kind = TopologyKind::exponential}, .fragments = 4};
  rule.fragment_order = FragmentOrder::largest;
  MixingLab lab(rule, drawn_models(6, 10));
  const double before = lab.spread_squared();
  lab.rounds(200);
  CHECK(lab.spread_squared() < 1e-8 * before);
}

TEST_CASE("a message that cannot be read is left out and counted", "[unit]") {
  const MixRule rule;
  MixingLab lab(rule, drawn_models(3, 4));
  Mixer<double>& mixer = lab.mixers()[0];
  Vector x = lab.models()[0];
  mixer.begin_round(0, x);
  mixer.end_steps(x, 0, 0);
  mixer.messages(0, x);
  const Vector before = x;
  using Bytes = std::vector<std::byte>;
  const auto short_one = std::make_shared<const Bytes>(7);
  const auto zeros = std::make_shared<const Bytes>(mix_message_bytes<double>(rule, 4, 0));
  const auto infinite = std::make_shared<const Bytes>(zeros->size(), std::byte{0xff});
  const std::vector<MixMessage> bad = {
      {1, 0, short_one}, {2, 0, infinite}, {2, 0, zeros}, {0, 0, zeros}};
  CHECK(mixer.mix(0, x, bad) == 4);
  CHECK(x == before);
}

TEST_CASE("a peer whose model is not finite says nothing", "[unit]") {
  MixingLab lab({}, drawn_models(3, 4));
  lab.models()[0][2] = std::nan("");
  Mixer<double>& mixer = lab.mixers()[0];
  mixer.begin_round(0, lab.models()[0]);
  mixer.end_steps(lab.models()[0], 0, 0);
  CHECK(mixer.messages(0, lab.models()[0]).empty());
  CHECK_FALSE(mixer.is_sound());
}

TEST_CASE("combinations that make no sense are refused with a reason and a remedy", "[unit]") {
  const auto refused = [](const MixRule& rule, std::string_view place) {
    for (const Problem& problem : problems_of(rule, 8)) {
      if (problem.place == place && !problem.reason.empty() && !problem.remedy.empty()) return true;
    }
    return false;
  };
  const Codec lossy{.kind = CodecKind::top_k};
  CHECK(refused({.codec = lossy}, "codec"));
  CHECK(refused({.codec = {.kind = CodecKind::random_k}}, "codec"));
  CHECK_FALSE(refused({.codec = {.kind = CodecKind::qsgd}}, "codec"));
  for (const MixMemory memory : {MixMemory::difference, MixMemory::error_feedback}) {
    const auto drawn = [&](double fraction) {
      return MixRule{.codec = {.kind = CodecKind::random_k, .fraction = fraction},
                     .memory = memory};
    };
    CHECK(refused(drawn(0.25), "gamma"));
    CHECK_FALSE(refused(drawn(0.9), "gamma"));
    MixRule ternary{.codec = {.kind = CodecKind::terngrad}, .memory = memory};
    CHECK(refused(ternary, "gamma"));
    ternary.gamma = 0.3;
    CHECK(problems_of(ternary, 8).empty());
    CHECK(problems_of({.codec = {.kind = CodecKind::qsgd, .levels = 7}, .memory = memory}, 8)
              .empty());
  }
  // Replicated differences have no gamma.
  CHECK(problems_of(
            {.codec = {.kind = CodecKind::terngrad}, .memory = MixMemory::replicated_difference}, 8)
            .empty());
  CHECK(refused(
      {.topology = {.kind = TopologyKind::one_peer_exponential}, .memory = MixMemory::difference},
      "memory"));
  CHECK(refused({.kind = MixKind::push_sum, .codec = lossy}, "codec"));
  CHECK(refused({.weigh_by_samples = true}, "weigh_by_samples"));
  CHECK(
      refused({.kind = MixKind::push_sum, .fragments = 2, .fragment_order = FragmentOrder::largest},
              "fragment_order"));
  CHECK(refused({.topology = {.kind = TopologyKind::complete},
                 .partners = Partners::pull,
                 .correction = MixCorrection::tracking},
                "partners"));
  CHECK(refused({.alpha = 0.6}, "alpha"));
  CHECK(refused({.correction = MixCorrection::d2}, "lazy"));
  CHECK(refused({.guard = {.kind = GuardKind::krum, .hostile = 1}}, "guard"));
  CHECK(refused({.kind = MixKind::relay_sum}, "topology"));
  CHECK(refused({.kind = MixKind::downpour}, "topology"));
  CHECK(refused({.kind = MixKind::companion}, "partners"));
  CHECK(refused({.memory = MixMemory::difference, .staleness = 1}, "staleness"));
  CHECK(refused({.topology = {.kind = TopologyKind::matching},
                 .kind = MixKind::noloco,
                 .gamma = 0.7,
                 .momentum = 0.9},
                "gamma"));
  CHECK(refused({.centre_rests = true}, "centre_rests"));
  // These settings would have no effect.
  CHECK(refused({.kind = MixKind::push_sum, .gamma = 0.5}, "gamma"));
  CHECK(refused({.alpha = 0.1, .fragments = 8, .fragment_order = FragmentOrder::own}, "alpha"));
  CHECK(refused({.gamma = 0.5, .fragments = 8, .fragment_order = FragmentOrder::own}, "gamma"));
  CHECK(refused({.weigh_by_age = true}, "weigh_by_age"));
  CHECK(refused({.kind = MixKind::push_sum, .staleness = 2, .weigh_by_age = true}, "weigh_by_age"));
  CHECK(problems_of({.staleness = 2, .weigh_by_age = true}, 8).empty());
  CHECK(refused({.fragments = 2, .outer = MixOuter::slowmo}, "fragments") == false);
}

TEST_CASE("no weight that a neighbour claims makes the weights of push-sum infinite", "[unit]") {
  const MixRule rule{.topology = {.kind = TopologyKind::complete}, .kind = MixKind::push_sum};
  constexpr std::size_t peers = 3;
  MixingLab lab(rule, drawn_models(peers, 4));
  std::size_t refused = 0;
  for (std::uint64_t round = 0; round < 4; ++round) {
    std::vector<std::vector<MixMessage>> sent;
    for (std::size_t peer = 0; peer < peers; ++peer) {
      Mixer<double>& mixer = lab.mixers()[peer];
      mixer.begin_round(round, lab.models()[peer]);
      mixer.end_steps(lab.models()[peer], 0, 0);
      sent.push_back(mixer.messages(round, lab.models()[peer]));
    }
    for (std::size_t peer = 0; peer + 1 < peers; ++peer) {
      std::vector<MixMessage> received;
      for (std::size_t from = 0; from < peers; ++from) {
        if (from == peer) continue;
        MixMessage message = sent[from].front();
        if (from + 1 == peers) {
          // The last peer lies about its weight, with which a message begins.
          auto bytes = std::make_shared<std::vector<std::byte>>(*message.bytes);
          const double huge = 1.7e308;
          std::memcpy(bytes->data(), &huge, sizeof huge);
          message.bytes = std::move(bytes);
        }
        received.push_back(std::move(message));
      }
      refused += lab.mixers()[peer].mix(round, lab.models()[peer], received);
      CHECK(std::isfinite(lab.mixers()[peer].weight()));
      CHECK(lab.mixers()[peer].is_sound());
    }
  }
  CHECK(refused == 4 * (peers - 1));
}

}  // namespace gv
