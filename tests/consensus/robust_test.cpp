// Without attackers, robust aggregates equal plain mixing. Attackers can do only bounded harm.
#include "consensus/mixing/robust.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <vector>

#include "base/rng.hpp"

namespace gv {
namespace {

using Floats = std::vector<float>;

constexpr double infinity = std::numeric_limits<double>::infinity();

/// Our own model and those of our neighbours. Without `weights` all neighbours have the same
/// weight.
struct Scene {
  Floats own;
  std::vector<Floats> others;
  std::vector<double> weights;

  std::size_t inputs() const { return others.size() + 1; }

  Floats change(const GuardOptions& options, const AbsentModels& absent = {}) const {
    std::vector<NeighbourModel> models;
    for (std::size_t j = 0; j < others.size(); ++j) {
      const double equal = 1 / static_cast<double>(inputs());
      models.push_back({others[j], weights.empty() ? equal : weights[j]});
    }
    Floats result(own.size(), std::nanf(""));  // The guard must overwrite every value.
    guarded_change(options, own, models, result, absent);
    return result;
  }
};

Floats normals(std::size_t n, Rng& rng, double scale = 1) {
  Floats values(n);
  for (float& value : values) value = static_cast<float>(scale * rng.normal());
  return values;
}

Scene random_scene(std::size_t neighbours, std::size_t elements, Rng& rng) {
  Scene scene{.own = normals(elements, rng)};
  double rest = 1;
  for (std::size_t j = 0; j < neighbours; ++j) {
    scene.others.push_back(normals(elements, rng));
    scene.weights.push_back(rest * rng.uniform() / 2);
    rest -= scene.weights.back();
  }
  return scene;
}

double norm(const Floats& values) {
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

double distance(const Floats& a, const Floats& b) {
  double sum = 0;
  for (std::size_t i = 0; i < a.size(); ++i) sum += std::pow(static_cast<double>(a[i]) - b[i], 2);
  return std::sqrt(sum);
}

Floats added(const Floats& own, const Floats& change) {
  Floats sum = own;
  for (std::size_t i = 0; i < own.size(); ++i) sum[i] += change[i];
  return sum;
}

/// Returns sum w_j (x_j - x_i), which plain mixing adds to our own model x_i.
Floats plainly_mixed(const Scene& scene, const std::vector<double>& weights) {
  Floats change;
  for (std::size_t i = 0; i < scene.own.size(); ++i) {
    double sum = 0;
    for (std::size_t j = 0; j < scene.others.size(); ++j) {
      sum += weights[j] * (static_cast<double>(scene.others[j][i]) - scene.own[i]);
    }
    change.push_back(static_cast<float>(sum));
  }
  return change;
}

std::vector<double> equal_weights(const Scene& scene) {
  return std::vector<double>(scene.others.size(), 1 / static_cast<double>(scene.inputs()));
}

}  // namespace

// ---- Without attackers ----

TEST_CASE("without attackers and with an infinite radius guards are plain mixing bit for bit") {
  Rng rng(1);
  for (const std::size_t d : {1u, 5u, 1024u, 3000u}) {
    const Scene scene = random_scene(4, d, rng);
    const Floats plain = plainly_mixed(scene, scene.weights);
    const Floats mean = plainly_mixed(scene, equal_weights(scene));
    CHECK(scene.change({.kind = GuardKind::none}) == plain);
    CHECK(scene.change({.kind = GuardKind::self_centred_clip, .radius = infinity}) == plain);
    CHECK(scene.change({.kind = GuardKind::centred_clip, .radius = infinity}) == mean);
    // With no hostile peer, the farthest model sets the radius.
    CHECK(scene.change({.kind = GuardKind::self_centred_clip, .hostile = 0}) == plain);
    CHECK(scene.change({.kind = GuardKind::centred_clip, .hostile = 0}) == mean);
    // The sum is formed in the order of the values, so only the last bit may differ.
    const Floats trimmed = scene.change({.kind = GuardKind::trimmed_mean, .hostile = 0});
    for (std::size_t i = 0; i < d; ++i) {
      REQUIRE(trimmed[i] == Approx(mean[i]).epsilon(1e-6).margin(1e-12));
    }
  }
}

TEST_CASE("equal models leave exactly zero with every guard") {
  Rng rng(2);
  Scene scene{.own = normals(500, rng, 7)};
  scene.others.assign(6, scene.own);
  for (const GuardKind kind : guard_kinds) {
    for (const double radius : {0.0, 1000.0}) {
      INFO(to_string(kind));
      CHECK(scene.change({.kind = kind, .radius = radius}) == Floats(500));
    }
  }
}

TEST_CASE("nobody to mix with changes nothing") {
  Rng rng(3);
  const Scene scene{.own = normals(10, rng)};
  for (const GuardKind kind : guard_kinds) {
    CHECK(scene.change({.kind = kind, .hostile = 0}) == Floats(10));
  }
}

TEST_CASE("another order of neighbours gives the same aggregate") {
  Rng rng(4);
  for (int i = 0; i < 100; ++i) {
    Scene scene = random_scene(6, 40, rng);
    scene.weights.clear();
    scene.others[2] = scene.others[4];
    Scene shuffled = scene;
    rng.shuffle(std::span(shuffled.others));
    for (const GuardKind kind : guard_kinds) {
      const Floats change = scene.change({.kind = kind});
      const Floats other = shuffled.change({.kind = kind});
      INFO(to_string(kind));
      const bool is_exact =
          kind == GuardKind::trimmed_mean || kind == GuardKind::median || kind == GuardKind::krum;
      if (is_exact) REQUIRE(change == other);
      // The bound allows for rounding sums of values around 1 from double to float. The geometric
      // median does this 8 times.
      REQUIRE(distance(change, other) <= 1e-5);
    }
  }
}

TEST_CASE("krum does not look at the order even where two are as near to each other") {
  // Only the nearest neighbour counts, so the two inputs that are nearest to each other have the
  // same score.
  Scene scene{.own = {9}, .others = {{1}, {2}}};
  CHECK(scene.change({.kind = GuardKind::krum, .hostile = 0}) == Floats{-8});
  std::swap(scene.others[0], scene.others[1]);
  CHECK(scene.change({.kind = GuardKind::krum, .hostile = 0}) == Floats{-8});
  scene.own = {1.5f};  // With equal scores our own model wins.
  CHECK(scene.change({.kind = GuardKind::krum, .hostile = 0}) == Floats{0});
}

// ---- The rules one by one ----

TEST_CASE("the trimmed mean and the median are those of each coordinate") {
  Rng rng(5);
  for (int round = 0; round < 300; ++round) {
    const std::size_t hostile = rng.below(3);
    const Scene scene = random_scene(2 * hostile + rng.below(4), 20, rng);
    const Floats trimmed = scene.change({.kind = GuardKind::trimmed_mean, .hostile = hostile});
    const Floats median = scene.change({.kind = GuardKind::median, .hostile = hostile});
    for (std::size_t i = 0; i < 20; ++i) {
      std::vector<double> column = {scene.own[i]};
      for (const Floats& other : scene.others) column.push_back(other[i]);
      std::ranges::sort(column);
      const std::size_t k = column.size();
      double sum = 0;
      for (std::size_t j = hostile; j < k - hostile; ++j) sum += column[j];
      const double mean = sum / static_cast<double>(k - 2 * hostile);
      REQUIRE(scene.own[i] + trimmed[i] == Approx(mean).margin(1e-6));
      const double middle = (column[(k - 1) / 2] + column[k / 2]) / 2;
      REQUIRE(scene.own[i] + median[i] == Approx(middle).margin(1e-6));
    }
  }
}

TEST_CASE("krum picks what a search over all inputs picks") {
  Rng rng(6);
  int other_with_fourth_powers = 0, rounds = 0;
  for (; rounds < 1000; ++rounds) {
    const std::size_t hostile = rng.below(3);
    const std::size_t k = 2 * hostile + 3 + rng.below(4);
    const Scene scene = random_scene(k - 1, 4, rng);
    std::vector<Floats> inputs = {scene.own};
    inputs.insert(inputs.end(), scene.others.begin(), scene.others.end());
    const auto picked = [&](double power) {
      std::size_t best = 0;
      double least = infinity;
      for (std::size_t a = 0; a < k; ++a) {
        std::vector<double> apart;
        for (std::size_t b = 0; b < k; ++b) {
          if (b != a) apart.push_back(std::pow(distance(inputs[a], inputs[b]), power));
        }
        std::ranges::sort(apart);
        double score = 0;
        for (std::size_t j = 0; j < k - hostile - 2; ++j) score += apart[j];
        if (score < least * (1 - 1e-12)) best = a;
        least = std::min(least, score);
      }
      return best;
    };
    const std::size_t best = picked(2);
    // If only the nearest input counts, pairs of inputs have equal scores. Another test covers that
    // case.
    if (k - hostile - 2 == 1) continue;
    const Floats result =
        added(scene.own, scene.change({.kind = GuardKind::krum, .hostile = hostile}));
    REQUIRE(distance(result, inputs[best]) <= 1e-6);
    other_with_fourth_powers += picked(4) != best;
  }
  // With distances squared twice, other inputs would be chosen. So this test would notice that
  // mistake.
  CHECK(other_with_fourth_powers > rounds / 50);
}

TEST_CASE("the geometric median is where it has to be") {
  // The median of three points on a line is the middle one. They are far apart, because distances
  // below 0.1 are smoothed.
  Scene line{.own = {0, 0}, .others = {{100, 200}, {1000, 2000}}};
  const Floats middle = line.change({.kind = GuardKind::geometric_median});
  CHECK(middle[0] == Approx(100).epsilon(0.05));
  CHECK(middle[1] == Approx(200).epsilon(0.05));
  // The sum of distances must be smaller at the median than at any input or at the mean.
  Rng rng(7);
  for (int i = 0; i < 50; ++i) {
    Scene scene = random_scene(8, 10, rng);
    for (float& value : scene.others[0]) value += 50;
    const auto cost = [&](const Floats& z) {
      double sum = distance(z, scene.own);
      for (const Floats& other : scene.others) sum += distance(z, other);
      return sum;
    };
    const double least =
        cost(added(scene.own, scene.change({.kind = GuardKind::geometric_median})));
    CHECK(least < cost(scene.own));
    for (const Floats& other : scene.others) CHECK(least < cost(other));
    CHECK(least < cost(added(scene.own, plainly_mixed(scene, equal_weights(scene)))));
    CHECK(least < cost(added(scene.own, scene.change({.kind = GuardKind::median}))));
  }
}

TEST_CASE("clips are their formulas") {
  const Scene scene{.own = {0, 1}, .others = {{3, 5}, {0, 2}}, .weights = {0.5, 0.25}};
  // The differences are (3, 4) with length 5 and (0, 1) with length 1.
  const Floats self = scene.change({.kind = GuardKind::self_centred_clip, .radius = 2.5});
  CHECK(self[0] == Approx(0.5 * 1.5));
  CHECK(self[1] == Approx(0.5 * 2 + 0.25 * 1));
  const Floats centred = scene.change({.kind = GuardKind::centred_clip, .radius = 2.5});
  CHECK(centred[0] == Approx(1.5 / 3));
  CHECK(centred[1] == Approx((2.0 + 1) / 3));
}

TEST_CASE("an adaptive radius is the distance of the farthest but those who may be hostile") {
  Rng rng(8);
  for (const GuardKind kind : {GuardKind::self_centred_clip, GuardKind::centred_clip}) {
    for (const std::size_t hostile : {1u, 2u}) {
      Scene scene{.own = normals(30, rng)};
      for (int j = 0; j < 4; ++j) scene.others.push_back(added(scene.own, normals(30, rng, j + 1)));
      const double radius = distance(scene.own, scene.others[3 - hostile]);
      CHECK(distance(scene.change({.kind = kind, .hostile = hostile}),
                     scene.change({.kind = kind, .radius = radius})) <= 1e-6);
    }
  }
}

TEST_CASE("a radius of zero distance believes nobody who is apart") {
  Scene scene{.own = {1, 2}};
  scene.others = {scene.own, scene.own, {1e30f, 0}};
  CHECK(scene.change({.kind = GuardKind::self_centred_clip}) == Floats{0, 0});
  CHECK(scene.change({.kind = GuardKind::centred_clip}) == Floats{0, 0});
}

TEST_CASE("one neighbour alone is limited by a radius and not by its own distance") {
  const Scene scene{.own = {0}, .others = {{100}}};
  CHECK(scene.change({.kind = GuardKind::self_centred_clip, .radius = 2}) == Floats{1});
  CHECK(scene.change({.kind = GuardKind::self_centred_clip}) == Floats{50});
}

// ---- With attackers ----

TEST_CASE("just less than half of the inputs cannot move a robust aggregate out of the honest") {
  Rng rng(9);
  for (std::size_t k = 3; k <= 12; ++k) {
    for (const GuardKind kind : {GuardKind::trimmed_mean, GuardKind::median, GuardKind::krum,
                                 GuardKind::geometric_median}) {
      const std::size_t hostile = kind == GuardKind::krum ? (k - 3) / 2 : (k - 1) / 2;
      const std::size_t honest = k - hostile;
      Scene scene{.own = normals(20, rng)};
      std::vector<Floats> sound = {scene.own};
      while (sound.size() < honest) sound.push_back(normals(20, rng));
      scene.others.assign(sound.begin() + 1, sound.end());
      for (std::size_t j = 0; j < hostile; ++j) {
        Floats far(20, j % 3 == 2 ? -1e30f : 1e30f);
        if (j % 2 == 1) far = normals(20, rng, 1e30);
        scene.others.push_back(far);
      }
      rng.shuffle(std::span(scene.others));
      REQUIRE_FALSE(problem_of({.kind = kind, .hostile = hostile}, k));
      const Floats result = added(scene.own, scene.change({.kind = kind, .hostile = hostile}));
      INFO(to_string(kind) << " of " << k << " with " << hostile << " hostile");
      if (kind == GuardKind::geometric_median) {
        // Pillutla 2022: with f hostile inputs among k, the bound is 2 (k - f) / (k - 2f) times the
        // distance of the farthest honest model from the honest models' mean.
        Floats mean(20);
        for (const Floats& model : sound) {
          for (std::size_t i = 0; i < 20; ++i) mean[i] += model[i] / static_cast<float>(honest);
        }
        double farthest = 0;
        for (const Floats& model : sound) farthest = std::max(farthest, distance(model, mean));
        const double bound =
            2.0 * static_cast<double>(honest) / static_cast<double>(k - 2 * hostile);
        CHECK(distance(result, mean) <= bound * farthest);
        continue;
      }
      for (std::size_t i = 0; i < 20; ++i) {
        const auto by_coordinate = [i](const Floats& a, const Floats& b) { return a[i] < b[i]; };
        const auto [least, most] = std::ranges::minmax_element(sound, by_coordinate);
        // The change and the sum are each rounded once, at values around 1.
        REQUIRE(result[i] >= (*least)[i] - 1e-6);
        REQUIRE(result[i] <= (*most)[i] + 1e-6);
      }
    }
  }
}

TEST_CASE("clips never move a model more than their weights times the radius") {
  Rng rng(10);
  for (int i = 0; i < 200; ++i) {
    Scene scene = random_scene(1 + rng.below(5), 50, rng);
    double weight = 0;
    for (std::size_t j = 0; j < scene.others.size(); ++j) {
      const auto scale =
          static_cast<float>(std::pow(10.0, static_cast<double>(rng.below(60)) - 24));
      for (float& value : scene.others[j]) value *= scale;
      weight += scene.weights[j];
    }
    const double radius = std::pow(10.0, 4 * rng.uniform() - 2);
    const double share = 1 - 1 / static_cast<double>(scene.inputs());
    // The factor allows for rounding to float.
    CHECK(norm(scene.change({.kind = GuardKind::self_centred_clip, .radius = radius})) <=
          weight * radius * (1 + 1e-6));
    CHECK(norm(scene.change({.kind = GuardKind::centred_clip, .radius = radius})) <=
          share * radius * (1 + 1e-6));
  }
}

TEST_CASE("with equal radii and weights of edges clipping keeps the mean of all") {
  Rng rng(11);
  std::vector<Floats> models(6);
  for (Floats& model : models) model = normals(100, rng, 3);
  std::vector<double> sum(100);
  for (std::size_t me = 0; me < 6; ++me) {  // The peers form a ring.
    const Scene scene{.own = models[me],
                      .others = {models[(me + 1) % 6], models[(me + 5) % 6]},
                      .weights = {1.0 / 3, 1.0 / 3}};
    const Floats change = scene.change({.kind = GuardKind::self_centred_clip, .radius = 30});
    REQUIRE(norm(change) > 0);
    for (std::size_t i = 0; i < 100; ++i) sum[i] += change[i];
  }
  // Six changes of about 3 are each rounded to float.
  for (const double rest : sum) CHECK(std::abs(rest) < 2e-6);
}

TEST_CASE("a neighbour that is not finite is left out and is one of the hostile") {
  Rng rng(12);
  const float bad = GENERATE(std::numeric_limits<float>::infinity(),
                             -std::numeric_limits<float>::infinity(), std::nanf(""));
  for (const GuardKind kind : guard_kinds) {
    Scene scene = random_scene(7, 30, rng);
    const Floats without = scene.change({.kind = kind, .hostile = 1});
    scene.others.insert(scene.others.begin() + 3, normals(30, rng));
    scene.others[3][17] = bad;
    scene.weights.insert(scene.weights.begin() + 3, 0.01);
    INFO(to_string(kind));
    CHECK(scene.change({.kind = kind, .hostile = 2}) == without);
    for (Floats& other : scene.others) other[29] = bad;
    CHECK(scene.change({.kind = kind, .hostile = 2}) == Floats(30));
  }
}

TEST_CASE("neighbours that are late do not let the few that came take over") {
  // Three of the eight neighbours may be hostile, and only two messages have arrived, both hostile.
  Scene scene{.own = Floats(4, 0)};
  scene.others.assign(2, Floats(4, 1e6f));
  for (const GuardKind kind : guard_kinds) {
    if (kind == GuardKind::none) continue;
    INFO(to_string(kind));
    CHECK(scene.change({.kind = kind}, {.late = 6}) == Floats(4, 0));
    CHECK(scene.change({.kind = kind, .hostile = 3}, {.late = 6}) == Floats(4, 0));
  }
  // Two more models have arrived, so the smallest of the four distances belongs to an honest one.
  scene.others.resize(4, Floats(4, 1));
  const Floats change = scene.change({.kind = GuardKind::self_centred_clip}, {.late = 4});
  CHECK(norm(change) > 0);
  CHECK(norm(change) <= 4.0 / 5 * norm(Floats(4, 1)) * 1.001);
  // A fixed radius limits each neighbour even if all arrived messages are hostile.
  scene.others.resize(2);
  const GuardOptions fixed{.kind = GuardKind::self_centred_clip, .radius = 1};
  CHECK(norm(scene.change(fixed, {.late = 6})) > 0);
}

TEST_CASE("a neighbour whose message is no model is one of the hostile") {
  Rng rng(22);
  const Scene scene = random_scene(5, 20, rng);
  // Three of the eight neighbours may be hostile. If three have been refused, they are the hostile
  // ones.
  CHECK(scene.change({.kind = GuardKind::trimmed_mean}, {.refused = 3}) ==
        scene.change({.kind = GuardKind::trimmed_mean, .hostile = 0}));
  CHECK(scene.change({.kind = GuardKind::trimmed_mean}, {.refused = 1}) ==
        scene.change({.kind = GuardKind::trimmed_mean, .hostile = 1}));
}

TEST_CASE("with fewer inputs than a rule needs nothing moves and a problem says so") {
  Rng rng(13);
  const auto needed = [](GuardKind kind, std::size_t hostile) {
    return fewest_inputs(kind, hostile);
  };
  CHECK(needed(GuardKind::trimmed_mean, 2) == 5);
  CHECK(needed(GuardKind::median, 2) == 5);
  CHECK(needed(GuardKind::geometric_median, 2) == 5);
  CHECK(needed(GuardKind::krum, 2) == 7);
  for (const GuardKind kind :
       {GuardKind::none, GuardKind::self_centred_clip, GuardKind::centred_clip}) {
    CHECK(needed(kind, 2) == 1);
  }
  for (const GuardKind kind : guard_kinds) {
    for (const std::size_t hostile : {0u, 1u, 3u}) {
      const GuardOptions options{.kind = kind, .hostile = hostile};
      const std::size_t enough = needed(kind, hostile);
      INFO(to_string(kind) << " and " << hostile);
      CHECK_FALSE(problem_of(options, enough));
      const Floats change = random_scene(std::max<std::size_t>(enough, 3), 5, rng).change(options);
      // Krum may choose our own model, which changes nothing.
      if (kind != GuardKind::krum) CHECK(norm(change) > 0);
      if (enough < 3) continue;
      CHECK(problem_of(options, enough - 1));
      CHECK(random_scene(enough - 2, 5, rng).change(options) == Floats(5));
    }
  }
}

TEST_CASE("unless it is said fewer than half of the neighbours may be hostile") {
  for (std::size_t neighbours = 3; neighbours <= 20; ++neighbours) {
    const std::size_t clipped =
        hostile_among({.kind = GuardKind::self_centred_clip}, neighbours + 1);
    CHECK(2 * clipped < neighbours);
    CHECK(2 * (clipped + 1) >= neighbours);
    for (const GuardKind kind : guard_kinds) {
      const GuardOptions options{.kind = kind};
      INFO(to_string(kind) << " of " << neighbours);
      CHECK(hostile_among(options, neighbours + 1) <= clipped);
      // Krum needs at least five inputs.
      if (neighbours > 3) CHECK_FALSE(problem_of(options, neighbours + 1));
    }
  }
  CHECK(hostile_among({.kind = GuardKind::krum}, 2) == 1);
  CHECK(hostile_among({.hostile = 2}, 20) == 2);
}

TEST_CASE("a radius below zero or none at all is a problem") {
  for (const GuardKind kind : guard_kinds) {
    CHECK(problem_of({.kind = kind, .radius = -1}, 100));
    CHECK(problem_of({.kind = kind, .radius = std::nan("")}, 100));
    CHECK_FALSE(problem_of({.kind = kind, .radius = infinity}, 100));
  }
}

}  // namespace gv
